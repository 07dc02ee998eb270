"""The long-running processes `up` and `worker`: how they start and end. `app` wires what runs in them."""
