"""The history that all stored windows of a topic tell, and the marks of its windows' tables runs.

The history has the lineages, the suspicions of redelivery, and the statements that count. A mark has the cut of a window, its
completeness, and its inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dts_assets.model.copied_tables import CopiedTable
from dts_assets.model.emptied_tables import emptied_among
from dts_assets.model.formats import ChangeOrder
from dts_assets.model.frontier import Consistency
from dts_assets.model.gtids import greatest_numbers
from dts_assets.model.ledger_rows import Comparison, Cut, IngestWindow
from dts_assets.model.lineages import LineageRule
from dts_assets.model.lives import Stretch
from dts_assets.model.message_ids import Load
from dts_assets.model.positions import SourcePosition
from dts_assets.model.problems import Problem
from dts_assets.model.runs import Run
from dts_assets.model.spans import Cell, partition_key
from dts_assets.model.statement_words import tables_in_words
from dts_assets.model.tables import TableId
from dts_assets.model.version import CODE_VERSION
from dts_assets.model.windows import ClosedBy, Window
from dts_assets.planning.copied_tables import NO_COPIES, Copies, copies_inputs, reached_by
from dts_assets.planning.cuts import cut_of_window
from dts_assets.planning.full_loads import find_full_loads
from dts_assets.planning.id_lineages import find_id_lineages
from dts_assets.planning.kept_statements import kept_statements
from dts_assets.planning.message_lives import PartitionLives, find_copies, find_lives
from dts_assets.planning.named_tables import may_mean_any
from dts_assets.planning.partial_images import NO_PARTIAL_IMAGES, PartialImages
from dts_assets.planning.pauses import resumed_in
from dts_assets.planning.proofs import ProofState, WindowProof, prove_behind
from dts_assets.planning.settled_ids import SeenIds
from dts_assets.planning.settled_past import NO_PAST, Past
from dts_assets.planning.shared_ids import cells_with_shared_ids
from dts_assets.planning.staleness import entries_input, generation, input_text, tables_inputs
from dts_assets.planning.suspicions import Suspicion, find_suspicions
from dts_assets.planning.topic_lineages import Lineages, find_lineages

PROOF_INPUT = "proof:"
"""The beginning of the names of inputs that decide a window's level and problems alone.

No row depends on them.
"""

TABLES_INPUT = "tables"
"""The name under which windows with statements that change a table record the known tables."""

_NO_STATEMENT = "none"


@dataclass(frozen=True, slots=True)
class TopicHistory:
    """The history that the stored windows of a subscription tell together.

    ``known`` are the known tables, ``tables`` is a digest of them, ``statements`` has the offsets of the DDL that counts,
    ``trusts_gtids`` says that GTIDs are the server's own; a task may make them up where the server has none. Where messages carry
    ids, ``lives`` has those of every Kafka partition, ``loads`` the full loads that replace a table, by the cell they begin in,
    and ``shared`` the earlier cells that may have ids of a window, by its start. ``past`` stands for earlier windows, of which
    there are no ``rows``. ``partial`` are images that lack columns of a key.
    """

    rows: Mapping[Cell, IngestWindow]
    lineages: Lineages
    suspicions: Mapping[Cell, Suspicion]
    statements: Mapping[Cell, frozenset[int]]
    trusts_gtids: bool
    tables: str
    lives: Mapping[int, PartitionLives] = field(default_factory=dict)
    loads: Mapping[Cell, tuple[Load, ...]] = field(default_factory=dict)
    past: Past = NO_PAST
    known: frozenset[TableId] = frozenset()
    partial: PartialImages = NO_PARTIAL_IMAGES
    shared: Mapping[datetime, tuple[Cell, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Iterable[IngestWindow],
        tables: Iterable[TableId],
        *,
        order: ChangeOrder,
        comparisons: Iterable[Comparison] = (),
        past: Past = NO_PAST,
        partial: PartialImages = NO_PARTIAL_IMAGES,
    ) -> TopicHistory:
        """Return the history that all rows of ``windows`` tell.

        ``tables`` are all known tables, ``order`` is the format's. ``comparisons`` are those of messages whose ids fall.
        The windows of ``past`` may be left out of ``rows``.
        """
        by_cell, known = {row.cell: row for row in rows}, frozenset(tables)
        digest = digest_of_tables(known)
        once = [*past.rows, *by_cell.values()]
        real = not any(mark.fake_gtid for row in once for mark in row.checkpoints)
        if order is ChangeOrder.MESSAGE_ID:
            lives = find_lives(once, comparisons, past.ids.lives)
            lineages = find_id_lineages(once, lives)
            loads = find_full_loads(once, lineages, past.ids.tables)
            lineages = replace(lineages, doubts=(*lineages.doubts, *loads.doubts))
            statements = kept_statements(once, lineages, trust_gtids=False, lives=lives)
            suspicions, shared = find_copies(lives.values()), cells_with_shared_ids(lives.values(), lineages)
            return cls(
                by_cell, lineages, suspicions, statements, real, digest, lives, loads.begins, past, known, shared=shared
            )
        # Who gives changes no numbers has one lineage, and copies only where changes tell the time of their transaction.
        arrived = order is ChangeOrder.ARRIVAL
        lineages = Lineages((), {}, {}) if arrived else find_lineages(once, trust_gtids=real)
        statements = kept_statements(once, lineages, trust_gtids=real, arrived=arrived)
        suspicions = find_suspicions(once, lineages)
        return cls(by_cell, lineages, suspicions, statements, real, digest, past=past, known=known, partial=partial)

    @property
    def ids(self) -> SeenIds:
        """The facts that windows behind these go on from, where messages carry ids."""
        return SeenIds(self.lives, self.lineages, self.suspicions, self.loads, self.shared)

    @property
    def undecided(self) -> tuple[int, ...]:
        """The Kafka partitions in which messages behind falling ids were not compared yet."""
        return tuple(partition for partition, lives in sorted(self.lives.items()) if lives.undecided is not None)

    def stretches(self, cell: Cell) -> tuple[Stretch, ...]:
        """Return the stretches of growing ids of a cell, where messages carry ids."""
        lives = self.lives.get(cell.kafka_partition)
        return () if lives is None else lives.stretches.get(cell, ())

    def inputs(self, window: Window, kafka_partitions: Iterable[int]) -> tuple[str, ...]:
        """Return the inputs of a window's tables beside its own entries.

        They are lineages, and windows that it is compared with.
        """
        texts: list[str] = []
        for partition in kafka_partitions:
            cell = Cell(partition, window)
            if cell not in self.rows:
                continue
            lineages = self._lineages_text(cell)
            if lineages != "0":
                texts.append(input_text(f"lineages:{cell}", lineages))
            if self.rows[cell].statements:
                counted = ",".join(map(str, sorted(self.statements.get(cell, ()))))
                texts.append(input_text(statements_input(cell), counted or _NO_STATEMENT))
                texts += self._texts_of_named(self.rows[cell])
            suspicion = self.suspicions.get(cell)
            texts += self._texts_of_ids(cell)
            if lists := self.partial.text(cell):
                texts.append(input_text(f"partial:{cell}", lists))
            for earlier in () if suspicion is None else suspicion.earlier:
                texts.append(input_text(entries_input(earlier), self.rows[earlier].generation))
        for earlier in self.shared.get(window.start, ()):
            texts.append(input_text(entries_input(earlier), self.rows[earlier].generation))
            if (lineages := self._lineages_text(earlier)) != "0":
                texts.append(input_text(f"lineages:{earlier}", lineages))
        return tuple(sorted(set(texts)))

    def _texts_of_named(self, row: IngestWindow) -> Iterator[str]:
        """Yield the inputs of a cell whose statements empty or alter tables.

        Such a table may be known only later, by rows of another window.
        """
        if may_mean_any(row):
            yield input_text(TABLES_INPUT, self.tables)
        for words in row.unread:
            name = digest_of_tables([TableId("", "", words)])
            yield input_text(f"{TABLES_INPUT}:{name}", digest_of_tables(tables_in_words(words, self.known)))
        for one in (*row.emptied, *row.altered):
            name = digest_of_tables([one.id])
            known = {one.id} & self.known if one.table else emptied_among([one], self.known)
            yield input_text(f"{TABLES_INPUT}:{name}", digest_of_tables(known))

    def _texts_of_ids(self, cell: Cell) -> Iterator[str]:
        """Yield the inputs of a cell whose messages carry ids."""
        lives = self.lives.get(cell.kafka_partition)
        if lives is not None and lives.undecided is not None and lives.undecided.cell == cell:
            yield input_text(f"contents:{cell}", f"undecided {lives.undecided.inputs}")
        if cell in self.suspicions and self.lives:
            told = ",".join(f"{one.offset}:{one.life}:{one.copies_until}" for one in self.stretches(cell))
            yield input_text(f"stretches:{cell}", told)
        for load in self.loads.get(cell, ()):
            yield input_text(
                f"load:{cell}", f"{load.offset} {load.database}.{load.schema}.{load.table} {load.emptied_at}"
            )

    def rules(self, cell: Cell) -> dict[str, LineageRule]:
        """Return the rule of every shard of a cell; empty where all is lineage 0."""
        row = self.rows[cell]
        shards = {run.shard for run in row.runs}
        rules = {shard: self.lineages.rule(cell.kafka_partition, shard, epoch=row.epoch) for shard in shards}
        return {shard: rule for shard, rule in rules.items() if rule.base or rule.breaks}

    def checkpoint(self, cell: Cell) -> tuple[SourcePosition, str | None] | None:
        """Return the greatest CHECKPOINT of a cell with its lineage, and its GTID set."""
        marks = []
        for mark in self.rows[cell].checkpoints:
            synced = greatest_numbers(mark.gtid_set or "")
            lineage = self.lineages.of_checkpoint(cell.kafka_partition, mark, synced)
            marks.append((SourcePosition(lineage, mark.position.file, mark.position.position), mark.gtid_set))
        return max(marks, key=lambda one: one[0], default=None)

    def several_shards(self) -> datetime | None:
        """Return the start of the first window up to which the topic shows several shards.

        They have no common order. None stands for one shard so far. Later windows change nothing about those before.
        """
        seen = {run.shard for row in self.past.rows for run in row.runs}
        for row in sorted(self.rows.values(), key=lambda row: row.window.start):
            seen |= {run.shard for run in row.runs}
            if len(seen) > 1:
                return row.window.start
        return None

    def _lineages_text(self, cell: Cell) -> str:
        """Return the lineages of a cell as text: one number if all entries have it, else the rules.

        Lineages that begin behind all entries of the cell are no part of it: the text stays when they come.
        """
        row = self.rows[cell]
        bounds = {self.lineages.of_run(cell.kafka_partition, run, epoch=row.epoch) for run in row.runs}
        numbers = {number for pair in bounds for number in pair}
        if len(numbers) <= 1:
            return str(next(iter(numbers), 0))
        of_shards: dict[str, list[Run]] = {}
        for run in row.runs:
            of_shards.setdefault(run.shard, []).append(run)
        return repr(sorted((shard, rule.up_to(of_shards[shard])) for shard, rule in self.rules(cell).items()))


@dataclass(frozen=True, slots=True)
class TopicMarks:
    """The cut and the proof of every stored window, from all rows of ``windows``; by window start.

    ``cuts`` has the position, the consistency and the GTID set of each cut. ``kafka_partitions`` are those of the topic,
    ``settings`` is the digest of the settings that shape rows. ``proven`` is the memory with which later windows are proven.
    ``copied`` has the copied tables that windows take.
    """

    kafka_partitions: range
    settings: str
    history: TopicHistory
    cuts: Mapping[datetime, tuple[SourcePosition | None, Consistency, str | None]]
    proofs: Mapping[datetime, WindowProof]
    proven: ProofState
    copied: Mapping[datetime, tuple[CopiedTable, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Iterable[IngestWindow],
        tables: Iterable[TableId],
        *,
        kafka_partitions: range,
        consistency: Consistency,
        order: ChangeOrder,
        settings: str,
        comparisons: Iterable[Comparison] = (),
        copied: Copies = NO_COPIES,
        past: Past = NO_PAST,
        judged: Past = NO_PAST,
        partial: PartialImages = NO_PARTIAL_IMAGES,
    ) -> TopicMarks:
        """Return the marks that all rows of ``windows`` give together; ``tables`` are all known tables.

        ``copied`` are the tables that were copied beside the stream. The windows of ``past`` may be left out of ``rows``. Those
        of ``judged``, which goes further, get neither cut nor proof.
        """
        history = TopicHistory.of(rows, tables, order=order, comparisons=comparisons, past=past, partial=partial)
        several = history.several_shards()
        until = judged.until or past.until
        later = [row for row in history.rows.values() if until is None or row.window.start >= until]
        by_window: dict[datetime, list[IngestWindow]] = {}
        for row in sorted(later, key=lambda row: row.kafka_partition):
            if row.kafka_partition in kafka_partitions:
                by_window.setdefault(row.window.start, []).append(row)
        cuts = {
            # Shards are servers of their own: there is no position that is common to them.
            start: _cut(history, mine, wanted=consistency if several is None or start < several else Consistency.WINDOW)
            for start, mine in by_window.items()
        }
        before = judged if judged.until is not None else past
        taken = copied.by_window(
            by_window, lambda start: reached_by(by_window[start], history.lineages, cuts[start][0])
        )
        found = cls(kafka_partitions, settings, history, cuts, {}, before.proofs, taken)
        proofs, proven = found._prove(later)
        return replace(found, proofs=proofs, proven=proven)

    def proven_behind(self, proven: ProofState, rows: Iterable[IngestWindow]) -> ProofState:
        """Return the memory behind some windows, from that behind the window before them."""
        return replace(self, proven=proven)._prove(rows)[1]

    def _prove(self, rows: Iterable[IngestWindow]) -> tuple[dict[datetime, WindowProof], ProofState]:
        """Return the proofs of windows behind those that were proven, and the memory behind them."""
        rows = list(rows)
        given: dict[datetime, list[IngestWindow]] = {}
        for row in rows:
            if row.kafka_partition in self.kafka_partitions:
                given.setdefault(row.window.start, []).append(row)
        # No GTID set is common to all Kafka partitions while one of them gave no CHECKPOINT.
        synced = {
            start: self.cuts[start][2]
            if len(mine) == len(self.kafka_partitions) and all(row.checkpoints for row in mine)
            else None
            for start, mine in given.items()
        }
        return prove_behind(
            self.proven,
            rows,
            kafka_partitions=len(self.kafka_partitions),
            synced=synced,
            trust_gtids=self.history.trusts_gtids,
            doubts=self.history.lineages.doubts,
        )

    def beside(self, window: Window) -> tuple[str, ...]:
        """Return the inputs of the tables of a window beside its own entries."""
        proof = self.proofs.get(window.start)
        if proof is None:
            return ()
        open_in = ",".join(map(partition_key, self._open_in(window)))
        rests_on = f"{proof.rests_on}; open {open_in}" if open_in else proof.rests_on
        cut, consistency, _ = self.cuts[window.start]
        if cut is not None and cut.lineage:  # other windows tell what lineage a CHECKPOINT has
            rests_on += f"; {consistency} at {cut}"
        proven = input_text(f"{PROOF_INPUT}{window.key}", rests_on)
        copied = copies_inputs(self.copied.get(window.start, ()))
        return (*self.history.inputs(window, self.kafka_partitions), *copied, proven)

    def mark(self, window: Window) -> Cut:
        """Return the row of ``cuts`` of a window all of whose cells are stored."""
        inputs = tables_inputs(
            window,
            self.kafka_partitions,
            self.history.rows,
            settings=self.settings,
            beside={window.start: self.beside(window)},
        )
        cut, consistency, gtid_set = self.cuts[window.start]
        proof = self.proofs[window.start]
        return Cut(
            window=window,
            cut=cut,
            gtid_set=gtid_set,
            consistency=consistency,
            completeness=proof.level,
            problems=tuple(_named(partition, problem) for partition, problem in proof.problems),
            generation=generation(inputs, code_version=CODE_VERSION),
            inputs=inputs,
            code_version=CODE_VERSION,
            open_in=self._open_in(window),
        )

    def _open_in(self, window: Window) -> tuple[int, ...]:
        """Return the Kafka partitions in which a window had not closed when it was stored."""
        rows = (self.history.rows.get(Cell(one, window)) for one in self.kafka_partitions)
        return tuple(row.kafka_partition for row in rows if row is not None and row.closed_by is ClosedBy.OPEN)


def same_rows(stored: Cut | None, mark: Cut, *, paused: Collection[TableId] = ()) -> bool:
    """Return whether two marks differ in the proof alone, so that the rows can stay.

    They cannot if the window lacks a table that is not ``paused`` any more.
    """
    if stored is None or stored.code_version != mark.code_version or set(stored.inputs) == set(mark.inputs):
        return False
    if resumed_in(stored, paused):
        return False
    return row_inputs(stored.inputs) == row_inputs(mark.inputs)


def row_inputs(inputs: Iterable[str]) -> set[str]:
    """Return the inputs that decide rows, and not the level and the problems alone."""
    return {text for text in inputs if not text.startswith(PROOF_INPUT)}


def is_tables_input(text: str) -> bool:
    """Return whether an input tells which tables are known, of all or of those that a statement names."""
    return text.startswith((f"{TABLES_INPUT}=", f"{TABLES_INPUT}:"))


def statements_input(cell: Cell) -> str:
    """Return the name under which tables record the statements of a cell that count."""
    return f"statements:{cell}"


def offsets_in(statements: str) -> list[int]:
    """Return the offsets in the text of such an input: of ``12,40`` they are 12 and 40."""
    return [] if statements in ("", _NO_STATEMENT) else [int(offset) for offset in statements.split(",")]


def proven_anew(marks: Iterable[Cut], stored: Mapping[datetime, Cut]) -> list[Cut]:
    """Return the marks of windows that keep their rows.

    They take over the offsets, the runs, the chain and the missing tables of the stored marks, so that the next run can append to
    the windows.
    """
    pairs = ((mark, stored[mark.window.start]) for mark in marks)
    return [
        replace(mark, ends=one.ends, made_by=one.made_by, chain=one.chain, paused=one.paused) for mark, one in pairs
    ]


def digest_of_tables(tables: Iterable[TableId]) -> str:
    """Return a digest of the known tables (12 hex digits), in any order."""
    names = sorted("\0".join(table.path) for table in tables)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


def _cut(
    history: TopicHistory, rows: Sequence[IngestWindow], *, wanted: Consistency
) -> tuple[SourcePosition | None, Consistency, str | None]:
    """Return the cut of a window from its stored cells, with the GTID set of its CHECKPOINT."""
    checkpoints = [history.checkpoint(row.cell) for row in rows]
    positions = [None if mark is None else mark[0] for mark in checkpoints]
    cut, consistency = cut_of_window(positions, {row.closed_by for row in rows}, wanted=wanted)
    gtid_set = next((mark[1] for mark in checkpoints if mark is not None and mark[0] == cut), None)
    return cut, consistency, gtid_set


def _named(kafka_partition: int | None, problem: Problem) -> Problem:
    if kafka_partition is None:
        return problem
    return replace(problem, detail=f"{partition_key(kafka_partition)}: {problem.detail}")
