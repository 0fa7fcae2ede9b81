"""Pages of 4 KiB as Linux hands them out, on a node as its jobs left it: what remedies are compared with."""

from pagelens.frames.policies.policy import Policy, kernel_rule

POLICIES = (Policy("aged", "4 KiB pages on a node as jobs left it", kernel_rule, compared=True),)
