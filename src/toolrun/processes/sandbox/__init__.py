"""Walls around a process: what it may read, write, run and reach, and how that is enforced."""
