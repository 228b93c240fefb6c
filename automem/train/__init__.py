"""Loop 2: a memory specialist is trained on an agent's own good memory turns, and adopted only if it helps."""
