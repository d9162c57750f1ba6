"""The columns that a layout means, by their names in a snapshot.

A layout may call a column by its name in the snapshot, by that at the source, or by a former one: then no other column is called
so, and the last column that was is meant.
"""

from __future__ import annotations

from dataclasses import replace

from dts_assets.model.columns import same_name
from dts_assets.model.layouts import Layout
from dts_assets.model.present_columns import PresentColumns
from dts_assets.stages.followed_schemas import FollowedTable


def layout_of_schemas(layout: Layout, table: FollowedTable) -> Layout:
    """Return a layout with the names that its columns have in the snapshot of a followed table.

    A column that nobody finds keeps its name.
    """
    shown = [place for place in range(len(table.columns)) if place not in table.mapped]
    names = {same_name(table.names[place]): table.columns[place].name for place in reversed(shown)}
    names |= {same_name(table.columns[place].name): table.columns[place].name for place in shown}
    if all(same_name(one) in names for one in columns_of(layout)):
        return _renamed(layout, names)
    former = dict[str, str]()
    for schema in table.followed().schemas[table.created :]:
        former |= {
            same_name(origin): table.columns[place].name
            for place in shown
            if (origin := schema.paths[place].origin) is not None
        }
    return _renamed(layout, former | names)


def layout_of_present(layout: Layout, present: PresentColumns) -> Layout:
    """Return a layout with the names that its columns have in a snapshot with some columns."""
    shown = [one for one in present.columns if one.place != "map"]
    names = {same_name(one.source): one.column for one in shown if one.place}
    return _renamed(layout, names | {same_name(name): name for one in shown if (name := one.column or one.source)})


def has_former_names(layout: Layout, present: PresentColumns) -> bool:
    """Return whether a layout calls some column by no name that it has now."""
    shown = [one for one in present.columns if one.place != "map"]
    names = {same_name(name) for one in shown for name in (one.source, one.column) if name}
    return any(same_name(one) not in names for one in columns_of(layout))


def columns_of(layout: Layout) -> tuple[str, ...]:
    """Return the names of the columns of a layout, as the configuration has them."""
    return (*(one.column for one in layout.partition), *layout.sort)


def _renamed(layout: Layout, names: dict[str, str]) -> Layout:
    def named(name: str) -> str:
        return names.get(same_name(name), name)

    return Layout(
        tuple(replace(one, column=named(one.column)) for one in layout.partition), tuple(map(named, layout.sort))
    )
