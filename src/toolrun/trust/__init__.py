"""Who may do what: approvals, pinned definitions, whose configuration this is."""
