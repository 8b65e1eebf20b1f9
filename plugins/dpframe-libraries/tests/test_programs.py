"""Programs with fakes in place of the libraries: what they are told and what comes back."""

import importlib.util
import sys
import types
from types import SimpleNamespace as Namespace

import numpy as np
import pytest
from dpframe_libraries.base import PROGRAMS

AGES = [[20.0], [None], [140.0]]
BASE = {"epsilon": 0.5, "bounds": [[0.0, 100.0]], "clean": False, "digits": None}


@pytest.fixture
def program(monkeypatch):
    """Loads a program as a worker does, with modules that stand in for libraries."""

    def load(name, **modules):
        monkeypatch.setattr(sys, "path", list(sys.path))
        for title, content in modules.items():
            module = types.ModuleType(title.replace("__", "."))
            vars(module).update(content)
            monkeypatch.setitem(sys.modules, module.__name__, module)
        spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        with monkeypatch.context() as context:
            context.setattr("warnings.filterwarnings", lambda *args: None)
            spec.loader.exec_module(module)
        return module

    yield load
    for name in ("library_tables", "opendp_before_0_6"):
        sys.modules.pop(name, None)


@pytest.fixture
def diffprivlib(program):
    told = []

    def mean(x, **more):
        told.append((list(x), more))
        return np.float64(1 / 3)

    class Laplace:
        def __init__(self, **more):
            told.append(more)

        def randomise(self, value):
            return value

    class GaussianNB:
        def __init__(self, **more):
            told.append(more)

        def fit(self, x, y):
            self.theta_, self.var_, self.class_prior_ = x, x, y
            return self

    fakes = {
        "mechanisms": Namespace(Laplace=Laplace, GeometricTruncated=Laplace),
        "models": Namespace(GaussianNB=GaussianNB),
        "tools": Namespace(mean=mean),
    }
    return program("use_diffprivlib", diffprivlib=fakes), told


def test_a_tool_sees_the_table_as_it_is_and_the_bounds(diffprivlib):
    module, told = diffprivlib
    params = {**BASE, "release": "tool", "tool": "mean", "quant": 0.5}
    release = module.prepare(params, AGES)
    assert told == []  # each release is a call of its own
    assert release() == 1 / 3
    ((values, more),) = told
    assert np.array_equal(values, [20.0, np.nan, 140.0], equal_nan=True)
    assert more == {"epsilon": 0.5, "bounds": (0.0, 100.0)}


def test_digits_round_what_is_released_and_clean_what_is_seen(diffprivlib):
    module, told = diffprivlib
    params = {**BASE, "release": "tool", "tool": "mean", "quant": 0.5, "digits": 2, "clean": True}
    assert module.prepare(params, AGES)() == 0.33
    assert told[0][0] == [20.0, 0.0, 100.0]


def test_mechanisms_get_the_sum_of_the_clipped_column_and_its_sensitivity(diffprivlib):
    module, told = diffprivlib
    params = {**BASE, "release": "mechanism", "mechanism": "Laplace"}
    assert module.prepare(params, AGES)() == 120.0
    assert told == [{"sensitivity": 100.0, "epsilon": 0.5}]
    assert module.prepare({**params, "mechanism": "GeometricTruncated"}, AGES)() == 120
    assert told[1] == {"sensitivity": 100, "epsilon": 0.5, "lower": 0, "upper": 300}
    assert all(type(value) is int for key, value in told[1].items() if key != "epsilon")


def test_a_model_of_classes_gets_codes_of_the_last_column(diffprivlib):
    module, told = diffprivlib
    params = {**BASE, "release": "GaussianNB", "categories": ["ill", "well"]}
    found = module.prepare(params, [[1.0, "well"], [2.0, "odd"]])()
    assert found["theta"].tolist() == [[1.0], [2.0]]
    assert found["prior"].tolist() == [1, 2]
    assert told[0]["bounds"][1].tolist() == [100.0]


def test_old_opendp_is_met_with_its_old_api(program):
    made = []

    def make_base_laplace(scale):
        made.append(scale)
        return Namespace(invoke=lambda value: value + 1)

    module = program(
        "use_opendp",
        opendp={"meas": Namespace(make_base_laplace=make_base_laplace)},
        opendp__mod={"enable_features": lambda *names: made.extend(names)},
    )
    assert module.prepare({**BASE, "release": "laplace"}, AGES)() == 121.0
    assert made == ["contrib", "floating-point", 200.0]
    with pytest.raises(NotImplementedError, match="this version"):
        module.prepare({**BASE, "release": "noisy-max"}, AGES)


def test_a_bit_vector_has_the_bit_of_the_category(program):
    prelude = {
        "m": Namespace(make_randomized_response_bitvec=lambda *space: lambda truth: truth),
        "__getattr__": lambda name: lambda *args, **named: None,
    }
    module = program("use_opendp", opendp={}, opendp__prelude=prelude)
    params = {"release": "bits", "categories": list("abcdefghij"), "flip": 0.5}
    assert module.prepare(params, [["c"]])() == b"\x04\x00"
    assert module.prepare(params, [["j"]])() == b"\x00\x02"
    assert module.prepare(params, [["unknown"]])() == b"\x00\x00"


def test_a_local_report_is_about_the_first_record(program):
    class UEClient:
        def __init__(self, epsilon, size, index_mapper, use_oue):
            self.told = (epsilon, size, use_oue)

        def privatise(self, at):
            return (*self.told, at)

    module = program("use_pure_ldp", pure_ldp={"frequency_oracles": Namespace(UEClient=UEClient)})
    params = {"client": "UEClient", "epsilon": 0.5, "categories": ["a", "b", "c"]}
    assert module.prepare(params, [["c"]])() == (0.5, 3, False, 2)


@pytest.fixture
def reports(program):
    """Reports of one value by multi-freq-ldpy, whose clients return `report` and what they hear."""

    def load(name, report, table=((2,),), **params):
        heard = []

        def client(*told):
            heard.append(told)
            return report

        homes = {
            "pure_frequency_oracles__GRR": {"GRR_Client": client},
            "pure_frequency_oracles__UE": {"UE_Client": client},
            "pure_frequency_oracles__HE": {
                "HE_Client": client,
                "find_tresh": lambda x, e: (x - 0.75) ** 2,
            },
            "pure_frequency_oracles__LH": {"LH_Client": client},
            "long_freq_est__L_SUE": {"L_SUE_Client": client},
            "long_freq_est__dBitFlipPM": {"dBitFlipPM_Client": client},
            "mdim_freq_est__SPL_solution": {"SPL_UE_Client": client},
            "mdim_freq_est__SMP_solution": {"SMP_UE_Client": client},
        }
        module = program(
            "use_multi_freq_ldpy",
            numba={"jit": lambda nopython: lambda function: function},
            xxhash={"xxh32": lambda text, seed: Namespace(intdigest=lambda: int(text) + seed)},
            **{f"multi_freq_ldpy__{title}": content for title, content in homes.items()},
        )
        asked = {"protocol": name, "size": 4, "epsilon": 1.0, "permanent": 3.0, "between": None}
        found = module.prepare({**asked, **params}, table).releases(2)
        assert np.array_equal(found[0], found[1])
        return heard[0], found[0]

    return load


def test_clients_of_multi_freq_ldpy_hear_the_claim_and_a_valid_value(reports):
    bits = [0.0, 1.0, 0.0, 1.0]
    assert reports("GRR", 3) == ((2, 4, 1.0), 3)
    assert reports("GRR", 3, table=[[9.0]])[0] == (3, 4, 1.0)
    assert reports("SUE", bits) == ((2, 4, 1.0, False), bits)
    assert reports("OUE", bits) == ((2, 4, 1.0, True), bits)
    assert reports("L-SUE", bits) == ((2, 4, 3.0, 1.0), bits)
    assert reports("dBitFlipPM", bits) == ((2, 4, 4, 4, 1.0), bits)
    assert reports("SPL-OUE", [bits], table=[[1, 3]])[0] == ([1, 3], [4, 4], 2, 1.0, True)
    assert reports("SMP-OUE", (1, bits), table=[[1, 3]])[1].tolist() == [1, *bits]


def test_many_reports_are_made_from_one_memoised_response(program):
    heard = []

    def client(value, size, epsilon):
        heard.append((value, size, epsilon))
        return (value + 1) % size

    module = program(
        "use_multi_freq_ldpy",
        numba={"jit": lambda nopython: lambda function: function},
        multi_freq_ldpy__pure_frequency_oracles__GRR={"GRR_Client": client},
    )
    asked = {"protocol": "GRR", "size": 4, "epsilon": 1.0, "permanent": 3.0, "reports": 2}
    assert module.prepare(asked, [[1]]).releases(2) == [[3, 3], [3, 3]]
    assert heard == 2 * [(1, 4, 3.0), (2, 4, 1.0), (2, 4, 1.0)]


def test_a_report_to_multi_freq_ldpy_supports_what_its_server_counts(reports):
    noisy = [0.6, 0.8, -2.0, 1.7]
    assert reports("SHE", noisy)[1] == noisy
    assert reports("THE", noisy)[1] == [0, 1, 0, 1]
    assert reports("BLH", (1, 2))[1] == [0, 1, 0, 1]  # (value + 2) modulo 2 is 1
    assert reports("OLH", (1, 2))[1] == [0, 0, 0, 1]  # modulo 4: e is about 3, and 1
    assert reports("GRR", 3, between=[3, 0])[1] == 1.0
    assert reports("GRR", 0, between=[3, 0])[1] == -1.0
    assert reports("GRR", 1, between=[3, 0])[1] == 0.0
    assert reports("OUE", [1.0, 0.0, 1.0, 0.0], between=[1, 2])[1] == -1.0
    assert reports("THE", noisy, between=[1, 0])[1] == 1.0
    assert reports("SHE", noisy, between=[3, 2])[1] == 1.0  # beyond 0 and 1 nothing more is told
    assert reports("SHE", noisy, between=[0, 1])[1] == pytest.approx(-0.2)


def test_algorithms_of_pydp_are_made_anew_for_each_release(program):
    made = []

    class BoundedMean:
        def __init__(self, **told):
            made.append(told)

        def quick_result(self, values):
            return len(values)

    laplacian = {"laplacian": Namespace(BoundedMean=BoundedMean)}
    module = program("use_pydp", pydp={}, pydp__algorithms=laplacian)
    release = module.prepare({**BASE, "algorithm": "BoundedMean"}, AGES)
    assert [release(), release()] == [3, 3]
    assert made == 2 * [
        {"epsilon": 0.5, "dtype": "float", "lower_bound": 0.0, "upper_bound": 100.0}
    ]


def test_a_clean_pipeline_has_numbers_within_bounds_and_is_never_empty(program):
    told = []

    class Engine:
        def __init__(self, accountant, backend):
            pass

        def aggregate(self, rows, params, parts, public_partitions):
            told.append((rows, params, public_partitions))
            return [(group, (float(len(rows)),)) for group in public_partitions]

    fakes = {
        "AggregateParams": lambda **more: more,
        "DataExtractors": lambda **more: more,
        "NaiveBudgetAccountant": lambda *a, **more: Namespace(compute_budgets=lambda: None),
        "DPEngine": Engine,
        "LocalBackend": lambda: None,
        "NoiseKind": Namespace(LAPLACE="laplace"),
        "Metrics": Namespace(SUM="sum"),
    }
    module = program("use_pipeline_dp", pipeline_dp=fakes)
    params = {**BASE, "bounds": [[1.0, 2.0]], "categories": ["a", "b"], "metric": "SUM"}
    table = [["a", None], ["b", 5.0]]
    assert module.prepare({**params, "clean": True}, table)() == [[3.0], [3.0]]
    rows, told_params, groups = told.pop()
    assert [row[1:] for row in rows] == [("a", 1.0), ("b", 2.0), ("no group", 0.0)]
    assert len({row[0] for row in rows}) == 3  # each a user of its own
    assert (told_params["min_value"], told_params["max_value"], groups) == (1.0, 2.0, ["a", "b"])
    assert module.prepare({**params, "clean": True}, [])() == [[1.0], [1.0]]
    module.prepare(params, table)()
    assert np.isnan(told[-1][0][0][2])
    assert told[-1][0][1] == ("1", "b", 5.0)
