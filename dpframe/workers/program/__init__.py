"""The program that runs inside a worker process."""
