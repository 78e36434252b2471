/* What a power cut leaves of a folder: preloaded, it copies each of its files to SYNCED_TO once that is synced. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All of an open file as it is now, in place of what an earlier sync has left of it. */
static void keep(int file, const char *to, const char *name)
{
    char kept[4096], part[4096], bytes[65536];
    snprintf(kept, sizeof kept, "%s/%s", to, name);
    snprintf(part, sizeof part, "%s/part", to);
    int copy = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    off_t at = 0;
    /* By this descriptor: to open and close another would let go of the program's locks on the file. */
    for (ssize_t size; (size = pread(file, bytes, sizeof bytes, at)) > 0; at += size)
        if (write(copy, bytes, size) != size) abort();
    close(copy);
    if (rename(part, kept)) abort();
}

/* A file that was removed is back after a power cut, until its folder is synced. */
static void forget_removed(const char *folder, const char *to)
{
    char path[4096];
    DIR *names = opendir(to);
    if (!names) abort();
    for (struct dirent *each; (each = readdir(names));) {
        snprintf(path, sizeof path, "%s/%s", folder, each->d_name);
        if (!access(path, F_OK)) continue;
        snprintf(path, sizeof path, "%s/%s", to, each->d_name);
        if (unlink(path)) abort();
    }
    closedir(names);
}

static void synced(int file)
{
    const char *folder = getenv("SYNCED_FOLDER"), *to = getenv("SYNCED_TO");
    char link[64], path[4096];
    if (!folder || !to) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    size_t prefix = strlen(folder);
    if (strncmp(path, folder, prefix)) return;
    if (path[prefix] == 0) forget_removed(folder, to);
    if (path[prefix] == '/') keep(file, to, path + prefix + 1);
}

#define SYNC(name)                                                                                                     \
    int name(int file)                                                                                                 \
    {                                                                                                                  \
        static int (*real)(int);                                                                                       \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                                                     \
        int code = real(file);                                                                                         \
        if (code == 0) synced(file);                                                                                   \
        return code;                                                                                                   \
    }

SYNC(fsync)
SYNC(fdatasync)
