"""What a command answered."""


def fault(answer):
    """The error and the hint of an answer that must be a usage error, with nothing on stdout."""
    code, out, err = answer
    assert (code, out) == (2, ""), (code, out, err)
    first, *rest = err.splitlines()
    assert first.startswith("error: ") and not first[7].isupper()
    assert "Traceback" not in err
    return first, "\n".join(rest)
