"""What dtc says of the modules of test/models/ts_cases.py."""

_X = ("--shape", "x=4x8")
CASES = {
    "Condition": (_X, "(ts_cases.py:22): depends on data"),
    "Selection": (_X, "(ts_cases.py:29): depends on data"),
    "Endless": (_X, "runs more than 4194304 operations (ts_cases.py:"),
    "Lists": (_X, "memory"),
    "Parameter": (_X, "changes the parameter f.weight in place"),
    "Raising": (_X, "the model refuses: too many"),
    "Parentheses": (_X, "LibTorch fails on it"),
    "Fine": ((), "give --shape x=BATCHx..."),
}
