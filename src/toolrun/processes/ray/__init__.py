"""Processes on the nodes of a Ray cluster, behind the same engine as those of this machine.

Ray places, and tells of deaths; the bytes flow beside it. Four processes take part:

    gateway    RayEngine, RayWorker: the pools, and one TLS connection to each replica. Never imports Ray
    placer     a child of the gateway: the only process here that imports Ray. Asks it for places, and lets go of them
    actor      a process of Ray on a node: starts the replica, watches it, and kills it if it does not live
    replica    a process on that node: `LocalEngine` with one worker in its sandbox, as on one machine

Ray prints to the standard output of its program, stalls its event loop for most of a second, and ends it a minute after
the head of the cluster is gone. So it has a process for itself, which may end: then the local tools go on.

**No secret passes through Ray.** What an actor is told is public: the certificate of the gateway, an address, a number
of seconds. The replica makes a key for itself that never leaves it, and tells its certificate through Ray. So each side
knows whom it speaks to, and the script, its arguments, its secrets and its answers travel over TLS between the two.

**Who may act, and until when.** A replica holds a lease (`lease.py`): without news from its gateway for so long, it
kills its worker. It is watched by its actor, because a process that was stopped cannot do that. The gateway takes the
worker for ended only when the lease must be over and the kill done, or when Ray has said that the actor is gone. So
nothing of a call runs any more when its caller is told that the worker was lost.
"""
