"""Lines for `pip install --require-hashes`, of a folder of wheels: hashes.py wheels > lines"""

import hashlib
import sys
from pathlib import Path


def main() -> None:
    for path in sorted(Path(sys.argv[1]).glob("*.whl")):
        name, version = path.name.split("-")[:2]
        print(f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
