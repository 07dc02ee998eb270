"""The processes that stay, `up` and `worker`. Owns how they start and end; `app` wires what runs in them."""
