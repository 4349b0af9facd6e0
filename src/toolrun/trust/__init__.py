"""Who may do what: approvals of calls, and pinned definitions of the tools of servers."""
