"""What runs add up to: behaviour, means and errors, tables, differences, and rows to train on."""
