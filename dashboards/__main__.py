"""`python -m dashboards`: write every dashboard to dashboards/json/, as `make dashboards` does."""

import sys

from dashboards.committed import write

if __name__ == "__main__":
    for path in write():
        sys.stdout.write(f"{path}\n")
