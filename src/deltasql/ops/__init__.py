"""The verbs: each turns a wish into actions, and actions into a commit."""
