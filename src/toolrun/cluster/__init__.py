"""Machines that become nodes of a Ray cluster: who is let in, and how Ray is started on them.

Knows Ray's command line and its variables, and does not import it. What runs on the nodes is in `processes/ray/`.
"""
