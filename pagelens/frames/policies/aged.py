"""Pages of 4 KiB as Linux hands them out on a node that ran jobs. Remedies are compared with this policy."""

from pagelens.frames.policies.policy import Policy, kernel_rule

POLICIES = (
    Policy(
        "aged",
        "4 KiB pages on a node as jobs left it",
        kernel_rule,
        compared=True,
        decided_by="state of the node",
    ),
)
