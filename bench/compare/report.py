"""The pure parts of the comparison: medians, paired ratios and the table. No process, no file."""
import statistics

HERE = "Pagoda"
LOWER_IS_BETTER = ("memory", "start")


def median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def ratio(rounds: list[dict], peer: str, cell: str) -> float | None:
    """Median over rounds of Pagoda / peer, each pair from one round: the machine drifts, and a round is the shortest stretch of it."""
    pairs = [(r.get(HERE, {}).get(cell), r.get(peer, {}).get(cell)) for r in rounds]
    return median([ours / theirs for ours, theirs in pairs if ours and theirs])


def summarise(rounds: list[dict], peers: list[str], cells: list[str]) -> dict:
    """rounds: [{engine: {cell: value}}] -> {cell: {engine: median, "percent": ..., "ratio": {peer: ...}}}."""
    out = {}
    for cell in cells:
        def values(engine, name=cell):
            return [r[engine][name] for r in rounds if name in r.get(engine, {})]
        out[cell] = {engine: median(values(engine)) for engine in (HERE, *peers)}
        out[cell]["percent"] = median(values(HERE, cell + "_percent"))
        out[cell]["ratio"] = {peer: ratio(rounds, peer, cell) for peer in peers}
    return out


def cell_label(cell: str) -> str:
    """prefill_512 -> prefill 512, tok/s"""
    kind, *rest = cell.split("_")
    return {"prefill": lambda: f"prefill {rest[0]}, tok/s", "decode": lambda: f"decode at {rest[0]}, tok/s",
            "batch": lambda: f"{rest[0]} sequences decode at {rest[2]}, tok/s",
            "memory": lambda: f"peak memory at {rest[2]}, MiB (lower is better)",
            "start": lambda: "start to first token, s (lower is better)"}[kind]()


def number(value: float | None) -> str:
    """Three significant digits or all before the point."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def short(text: str, limit: int = 160) -> str:
    """A reason on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit - 1] + "…"


def table(summary: dict, peers: list[str], reasons: dict) -> str:
    """Markdown. `reasons`: {peer: {cell or "*": why there is no number}}, numbered below the table."""
    notes: list[str] = []

    def missing(peer: str, cell: str) -> str:
        why = reasons.get(peer, {}).get(cell) or reasons.get(peer, {}).get("*")
        if why is None:
            return "–"
        note = f"{peer}: {short(why)}"
        if note not in notes:
            notes.append(note)
        return f"no [{notes.index(note) + 1}]"

    lines = ["| work | Pagoda | of limit |" + "".join(f" {peer} | ratio |" for peer in peers), "|---|---|---|" + "---|---|" * len(peers)]
    for cell, row in summary.items():
        percent = "" if row["percent"] is None else f"{row['percent']:.0f} %"
        line = f"| {cell_label(cell)} | {number(row[HERE]) if row[HERE] is not None else missing(HERE, cell)} | {percent} |"
        for peer in peers:
            if row[peer] is None:
                line += f" {missing(peer, cell)} | |"
            else:
                line += f" {number(row[peer])} | {'–' if row['ratio'][peer] is None else format(row['ratio'][peer], '.2f')} |"
        lines.append(line)
    return "\n".join(lines + [""] * bool(notes) + [f"[{i + 1}] {note}  " for i, note in enumerate(notes)])
