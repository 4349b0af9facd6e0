"""Machines that become nodes of a Ray cluster: who is let in, and how Ray is started on them.

Knows Ray's command line and its variables, and does not import it. What runs on the nodes is in `processes/ray/`.
The names below are what `toolrun cluster` is made of, for programs that start machines themselves.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.cluster.credentials import Credentials as Credentials
    from toolrun.cluster.credentials import invite as invite
    from toolrun.cluster.credentials import make_head_credentials as make_head_credentials
    from toolrun.cluster.ray_start import ray_variables as ray_variables

__getattr__, __dir__, __all__ = export(
    __name__,
    {"credentials": ["Credentials", "invite", "make_head_credentials"], "ray_start": ["ray_variables"]},
)
