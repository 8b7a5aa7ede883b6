"""First workflow: a workflow for Counterfoil."""
