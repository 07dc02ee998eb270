"""The gate: what every call passes. Policy as pure functions, facts, approval cards, the conveyor, ESTOP, taint.

Owns whether and how often something happens. Never proposes, never talks to a model, never prints.
"""
