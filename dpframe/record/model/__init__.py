"""The record as types: what each field means, and which values it can have."""

from dpframe.record.model.cell import AskedRecord as AskedRecord
from dpframe.record.model.cell import Basis as Basis
from dpframe.record.model.cell import CellRecord as CellRecord
from dpframe.record.model.cell import ChoiceRecord as ChoiceRecord
from dpframe.record.model.cell import ClaimRecord as ClaimRecord
from dpframe.record.model.cell import ContrastRecord as ContrastRecord
from dpframe.record.model.cell import EstimateRecord as EstimateRecord
from dpframe.record.model.cell import ExactRecord as ExactRecord
from dpframe.record.model.cell import ExcessRecord as ExcessRecord
from dpframe.record.model.cell import LookRecord as LookRecord
from dpframe.record.model.cell import PairRecord as PairRecord
from dpframe.record.model.cell import SearchRecord as SearchRecord
from dpframe.record.model.cell import TruthRecord as TruthRecord
from dpframe.record.model.cell import Verdict as Verdict
from dpframe.record.model.record import AuditRecord as AuditRecord
from dpframe.record.model.record import EnvironmentRecord as EnvironmentRecord
from dpframe.record.model.record import InstalledRecord as InstalledRecord
from dpframe.record.model.record import Multiplicity as Multiplicity
from dpframe.record.model.record import PluginRecord as PluginRecord
from dpframe.record.model.record import Record as Record
from dpframe.record.model.record import SkipRecord as SkipRecord
from dpframe.record.model.record import SpecRecord as SpecRecord
from dpframe.record.model.record import SummaryRecord as SummaryRecord
from dpframe.record.model.record import record_schema as record_schema
