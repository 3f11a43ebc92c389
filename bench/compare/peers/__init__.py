"""One file an engine; each is a program that measures one group of cells and prints JSON (see common.py)."""
