/* Where each member of the state lies, for the test that compares it with state.py. */
#include "driver.h"

typedef struct { const char *name; u64 offset, bytes; } Member;

/* The members of one struct in order, and "" with the size of the whole as the last. */
#define ONE_ROW(type, name) {#name, offsetof(Struct, name), sizeof(type)},
#define MANY_ROW(type, name, length) {#name, offsetof(Struct, name), sizeof(type[length])},
#define MEMBERS(Name, FIELDS)                                                                                          \
    static Member member_of_##Name(u32 index)                                                                          \
    {                                                                                                                  \
        typedef Name Struct;                                                                                           \
        static const Member members[] = {FIELDS(ONE_ROW, MANY_ROW){"", 0, sizeof(Struct)}};                            \
        const u32 last = sizeof members / sizeof *members - 1;                                                         \
        return members[index < last ? index : last];                                                                   \
    }
STRUCTS(MEMBERS)

/* The name of a member, its offset and its bytes; past the last "" and the bytes of the struct; NULL for no struct. */
EXPORT const char *fake_member(const char *structure, u32 index, u64 *offset, u64 *bytes)
{
    Member member;
#define CHOOSE(Name, FIELDS)                                                                                           \
    if (!strcmp(structure, #Name)) {                                                                                   \
        member = member_of_##Name(index);                                                                              \
        *offset = member.offset;                                                                                       \
        *bytes = member.bytes;                                                                                         \
        return member.name;                                                                                            \
    }
    STRUCTS(CHOOSE)
    return NULL;
}
