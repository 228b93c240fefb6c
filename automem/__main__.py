"""`python -m automem` is the command `automem`."""

from automem.cli.main import main

if __name__ == "__main__":
    main()
