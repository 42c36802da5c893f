"""The scenarios, a module for each area of the specification."""
