"""Answer questions to the accountants of one environment, one line of JSON for each.

It runs in interpreters that have neither dpframe nor NumPy, under Python 3.8 and later. An adapter
is a module with ACCOUNTANTS: name → (function, claim, statement). The function gets a question and
returns ε for each of its δ; it raises NotImplementedError if its library does not claim to answer.
The claim is "upper" or "lower", the side of the true ε that the library promises. The statement
names the neighbours and the sampling that are supported. VERSION, if the module has it, is the
version of the library.
"""

import importlib.util
import json
import os
import sys
import warnings


def main(paths):
    """Load adapters and answer until the input ends."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to standard error
    warnings.simplefilter("ignore")
    known, versions, missing = {}, {}, {}
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            known.update(module.ACCOUNTANTS)
            versions.update(dict.fromkeys(module.ACCOUNTANTS, getattr(module, "VERSION", "")))
        except ImportError as error:
            missing[name] = str(error)
        except Exception as error:  # the adapter or its library is broken
            missing[name] = "%s: %s" % (type(error).__name__, error)
    found = {
        name: {"claim": one[1], "statement": one[2], "version": versions[name]}
        for name, one in known.items()
    }
    tell(lines, {"accountants": found, "missing": missing})
    for line in sys.stdin:
        question = json.loads(line)
        tell(lines, answer(known[question["accountant"]][0], question))


def answer(function, question):
    """Return the answer of one accountant as a dictionary."""
    try:
        return {"epsilons": [repr(float(one)) for one in function(question)]}
    except NotImplementedError as reason:
        return {"not_asked": str(reason)}
    except Exception as error:  # any exception of a library is its answer
        return {"error": ("%s: %s" % (type(error).__name__, error))[:500]}


def tell(stream, message):
    """Write one line."""
    stream.write(json.dumps(message) + "\n")
    stream.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
