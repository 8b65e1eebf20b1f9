"""`python -m dpframe`."""

from dpframe.cli import main

if __name__ == "__main__":
    main()
