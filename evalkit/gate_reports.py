"""Verdicts of the gate for CI: JUnit XML, and Markdown for a job page."""

import re
import xml.etree.ElementTree as ET

from evalkit.gate import GateReport, Verdict, shown

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(report: GateReport) -> str:
    """Write a report as JUnit XML: a test case for every criterion and for every regressed case.

    A regressed case fails when there are more of them than allowed, and is skipped, with its loss as the message,
    when they are tolerated. Characters that XML does not allow are replaced.

    Parameters
    ----------
    report
        What `gate.gate` gave.

    Returns
    -------
    str
        One ``testsuite`` in ``testsuites``, UTF-8.
    """
    tolerated = all(verdict.passed for verdict in report.verdicts if verdict.name.startswith("max_regressed"))
    suite = ET.Element("testsuite", name=f"evalkit gate {report.run_id}")
    for verdict in report.verdicts:
        case = ET.SubElement(suite, "testcase", classname="evalkit.gate.criteria", name=_clean(verdict.name))
        if not verdict.passed:
            ET.SubElement(case, "failure", message=_clean(sentence(verdict))).text = _clean(verdict.detail)
        ET.SubElement(case, "system-out").text = _clean(f"{sentence(verdict)}; {verdict.detail}")
    for regressed in report.regressed:
        case = ET.SubElement(
            suite, "testcase", classname="evalkit.gate.regressed", name=_clean(regressed.case_id)
        )
        outcome = ET.SubElement(case, "skipped" if tolerated else "failure", message=_clean(regressed.detail))
        outcome.text = _clean(f"{regressed.question}\n{regressed.detail}")
    counts = {
        "tests": len(suite),
        "failures": len(suite.findall("testcase/failure")),
        "skipped": len(suite.findall("testcase/skipped")),
        "errors": 0,
    }
    for name, count in counts.items():
        suite.set(name, str(count))
    root = ET.Element("testsuites", {name: str(count) for name, count in counts.items()})
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def markdown_summary(report: GateReport) -> str:
    """Write a report as Markdown for the summary page of a CI job.

    Parameters
    ----------
    report
        What `gate.gate` gave.

    Returns
    -------
    str
        Verdict, table of criteria, regressed cases, notes. Text of cases is escaped.
    """
    missed = sum(not verdict.passed for verdict in report.verdicts)
    title = "all criteria met" if report.passed else f"{missed} of {len(report.verdicts)} criteria not met"
    against = f", baseline `{report.baseline_id}`" if report.baseline_id else ""
    lines = [
        f"## Retrieval gate: {title}",
        "",
        f"Run `{report.run_id}` of {_escape(report.dataset)}{against}.",
        "",
        "| criterion | value | bound | n | verdict | where it comes from |",
        "| --- | ---: | ---: | ---: | --- | --- |",
    ]
    lines += [
        f"| {_escape(v.name)} | {shown(v.value)} | {_escape(v.relation)} {shown(v.bound)} | {v.n} "
        f"| {'met' if v.passed else '**not met**'} | {_escape(v.detail)} |"
        for v in report.verdicts
    ]
    if report.regressed:
        lines += ["", f"### Cases worse than in the baseline ({len(report.regressed)})", ""]
        lines += [
            f"- **{_escape(c.case_id)}**: {_escape(c.question)} {_escape(c.detail)}" for c in report.regressed
        ]
    if report.notes:
        lines += ["", *(f"> {_escape(note)}\n" for note in report.notes)]
    return "\n".join(lines).rstrip() + "\n"


def text_summary(report: GateReport) -> str:
    """Write a report for a terminal: a line a criterion, then the regressed cases and notes."""
    lines = [sentence(verdict) for verdict in report.verdicts]
    lines += [f"worse than in the baseline: {case.case_id}: {case.detail}" for case in report.regressed]
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(lines)


def sentence(verdict: Verdict) -> str:
    """Say in one line how a criterion came out."""
    return (
        f"{verdict.name}: {shown(verdict.value)}, wanted {verdict.relation} {shown(verdict.bound)}, n = {verdict.n}, "
        f"{'met' if verdict.passed else 'not met'}"
    )


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _escape(text: str) -> str:
    flat = " ".join(_clean(text).split())
    return re.sub(r"[\\`*\[\]<>|&]", lambda match: f"&#{ord(match.group())};", flat)
