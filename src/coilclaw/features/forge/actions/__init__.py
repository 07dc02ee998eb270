"""Jobs in GitHub Actions: the workflows, what they may hold, and the commands that they run. See decision 0045."""
