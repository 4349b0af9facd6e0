"""The record of calls and the ledger of effects, in one SQLite file per project."""
