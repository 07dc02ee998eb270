"""Pull requests: jobs work in trees of their own, and what they changed is merged by the owner's word."""
