"""`python -m thermocline` is the command line."""

from thermocline.cli.main import run

if __name__ == "__main__":
    run()
