"""The policy: the rules in force, policy files, and calls tried against them."""
