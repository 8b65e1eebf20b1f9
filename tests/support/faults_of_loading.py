"""Plugins that cannot be loaded."""

from __future__ import annotations

from support.faulty_plugins import ATTACK, FIRST, LISTED, of, raw

LOADING = {
    "import fails": raw("import not_there\n", "ModuleNotFoundError: No module named 'not_there'"),
    "import exits": raw("raise SystemExit(3)\n", "SystemExit: 3"),
    "a syntax error": raw("def f(:\n", r"SyntaxError: .*bad_plugin\.py"),
    "an error that cannot be told": raw(
        "class Odd(Exception):\n    def __str__(self): return 1 / 0\nraise Odd\n", "Odd"
    ),
    "an error full of escapes": raw(r"raise ValueError('\x1b[2J\u202e\n\x07')", r"ValueError: "),
    "a hook raises": raw(
        "@hookimpl\ndef dpframe_attacks():\n    raise KeyError('x')\n",
        r"dpframe_attacks: KeyError: 'x' \(bad_plugin\.py:\d+\)",
    ),
    "a hook exits": raw("@hookimpl\ndef dpframe_attacks(): exit(0)\n", "SystemExit: 0"),
    "a hook returns nothing": raw("@hookimpl\ndef dpframe_attacks(): pass\n", "NoneType"),
    "a hook gives up half-way": raw(
        ATTACK + "@hookimpl\ndef dpframe_attacks():\n    yield Bad\n    raise ValueError('late')\n",
        "ValueError: late",
    ),
    "a hook takes an argument": raw(
        "@hookimpl\ndef dpframe_attacks(config): return []\n", "PluginValidationError: "
    ),
    "a hook that is none": raw(
        "@hookimpl\ndef dpframe_atacks(): return []\n", "dpframe_atacks, .*mean 'dpframe_attacks'"
    ),
    "a hook returns instances": raw(
        ATTACK + "dpframe_attacks = hookimpl(lambda: [Bad()])\n", "which is not a named subclass"
    ),
    "a hook returns a base": raw(
        "class Base(Attack): pass\ndpframe_attacks = hookimpl(lambda: [Base])\n",
        r'Base is a base class; to use it: class Base\(Attack, name="…"\)',
    ),
    "the wrong hook": raw(
        ATTACK + "dpframe_pairs = hookimpl(lambda: [Bad])\n", "returns Bad, which is an attack"
    ),
    "an interface from the future": raw(
        ATTACK.replace('name="bad"', 'name="bad", api=999')
        + "dpframe_attacks = hookimpl(lambda: [Bad])\n",
        "attack 'bad' needs plugin interface 999; this dpframe has 1",
    ),
    "two of one name": raw(
        ATTACK
        + ATTACK.replace("Bad", "Worse")
        + "dpframe_attacks = hookimpl(lambda: [Bad, Worse])\n",
        "provides two attacks named 'bad'",
    ),
    "nothing to score with": of("attack", LISTED, "Bad: an attack must define score", score=""),
    "a mutable default": of(
        "attack", LISTED, "mutable default", FIRST["attack"] + "\nx: Any = np.zeros(2)"
    ),
    "a parameter of a type that no spec has": of(
        "attack",
        LISTED,
        "Bad.x is Odd; a spec can set numbers",
        FIRST["attack"] + "\nx: Odd = None",
        before="class Odd: pass",
    ),
    "an assumption that is no text": of(
        "estimator",
        LISTED,
        "Bad.assumption is 7; it must be a text",
        "certifies = True\nassumption = 7",
    ),
    "a name that clears the screen": raw(
        ATTACK.replace('name="bad"', r'name="\x1b[2J"'), "must be printable"
    ),
}
