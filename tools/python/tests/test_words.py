# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What keywords become, what is read of the command's answers, and which command that is. No device is needed.
"""

import re
from datetime import timedelta

import pytest

import ferroce
from ferroce import _command, _fault, _views


@pytest.mark.parametrize(
    'keywords, options',
    [
        (dict(loss=0.01, seed=7), ['--loss=1%', '--seed=7']),
        (dict(loss='0.5%'), ['--loss=0.5%']),
        (dict(loss=1 / 3), ['--loss=33.3333%']),
        (dict(loss=1), ['--loss=100%']),
        (dict(loss=0.000001), ['--loss=0.0001%']),
        (dict(drop='opcode=ACK and psn%64=3', count=2), ['--drop=opcode=ACK and psn%64=3', '--count=2']),
        (dict(delay='1ms±200us', program='ib_write_bw', for_='10s'), ['--delay=1ms±200us', '--program=ib_write_bw', '--for=10s']),
        (dict(delay=0.0015), ['--delay=1500000ns']),
        (dict(delay=timedelta(milliseconds=2), for_=timedelta(seconds=1)), ['--delay=2000000ns', '--for=1000000000ns']),
        (dict(duplicate=True, rate=0.25), ['--duplicate', '--rate=25%']),
        (dict(reorder=True, every=3), ['--reorder', '--every=3']),
        (dict(corrupt=True), ['--corrupt']),
        (dict(corrupt='payload'), ['--corrupt=payload']),
        (dict(rnr=True, qp=0x2AA3B), ['--rnr', '--qp=174651']),
        (dict(rnr=True, peer_qp='0x2aa3b'), ['--rnr', '--peer-qp=0x2aa3b']),
        (dict(nak='remote-access', direction='in'), ['--nak=remote-access', '--in']),
        (dict(wc_error='retry-exc', direction='out', pid=1), ['--wc-error=retry-exc', '--pid=1']),
        (dict(alloc_fail='create_qp=EAGAIN'), ['--alloc-fail=create_qp=EAGAIN']),
        (dict(disconnect=True), ['--disconnect']),
        (dict(port_down=True), ['--port-down']),
        (dict(port_down=2), ['--port-down=2']),
        (dict(gid_remove=0), ['--gid-remove=0']),
        (dict(cm_reject=28), ['--cm-reject=28']),
        (dict(nth=17, match='opcode=request'), ['--match=opcode=request', '--nth=17']),
        (dict(loss=0.5, rnr=False, corrupt=False, port_down=False, gid_remove=False), ['--loss=50%']),
    ],
)
def test_keywords_are_the_options_of_the_command(keywords, options):
    assert sorted(ferroce.fault(**keywords)._options) == sorted(options)


def test_every_option_of_the_command_has_a_keyword():
    help_text = _command.call(None, 'fault', 'add', '--help')
    options = set(re.findall(r'^ +(?:-\w, )?(--[a-z-]+)', help_text, re.MULTILINE))
    options -= {'--runtime-dir', '--help', '--json'}

    keywords = {'--in' if name == 'direction' else '--' + name.rstrip('_').replace('_', '-') for name in _keywords()}
    assert keywords == options


def _keywords():
    code = _fault.fault.__code__
    return set(code.co_varnames[: code.co_kwonlyargcount]) - {'device'}


def test_a_keyword_that_there_is_not_is_told_with_those_that_there_are():
    with pytest.raises(TypeError, match=r'no keyword los; it has loss, drop, .*seed and device'):
        ferroce.fault(los=0.01)


@pytest.mark.parametrize(
    'keywords, error, words',
    [
        (dict(loss=1.5), ValueError, 'from 0 to 1'),
        (dict(loss=-0.1), ValueError, 'from 0 to 1'),
        (dict(loss=True), TypeError, 'loss needs a value'),
        (dict(count=True, loss=0.1), TypeError, 'count needs a value'),
        (dict(rnr=3), TypeError, 'rnr is True or False'),
        (dict(rnr=True, direction='both'), ValueError, "'in' or 'out'"),
    ],
)
def test_values_that_make_no_sense_are_refused_at_once(keywords, error, words):
    with pytest.raises(error, match=words):
        ferroce.fault(**keywords)


def test_what_was_not_added_has_no_number():
    with pytest.raises(RuntimeError, match='has not been added'):
        ferroce.fault(loss=0.1).hits
    ferroce.fault(loss=0.1).clear()


def test_samples_of_openmetrics():
    text = (
        '# HELP ferroce_up Whether\nferroce_up 1.0\n'
        'ferroce_program_seconds{device="ferroce0",program="a \\"b\\" \\\\ \\n{c},d"} 2.5e1\n# EOF\n'
    )
    up, program = _views.parse(text)
    assert up == ferroce.Metric('ferroce_up', {}, 1.0)
    assert program.labels == {'device': 'ferroce0', 'program': 'a "b" \\ \n{c},d'}
    assert program.value == 25.0
    with pytest.raises(ValueError, match='no sample'):
        _views.parse('ferroce_up')


@pytest.mark.parametrize(
    'said, told',
    [
        ('ferroce: there is no fault 9\n', 'there is no fault 9'),
        ("error: unexpected argument '--los' found\n\n  tip: x\n\nUsage: ferroce\n\nFor more information\n", "--los' found\n\n  tip: x"),
        ("error: invalid value '1'\n\nFor more information, try '--help'.\n", "invalid value '1'"),
        ('', 'says nothing'),
    ],
    ids=['its own', 'an option', 'a value', 'silence'],
)
def test_an_error_has_the_words_of_the_command(said, told):
    assert _command.told(said).endswith(told)


def test_the_command_of_the_same_prefix_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv('FERROCE_COMMAND', raising=False)
    package = tmp_path / 'lib/python3.11/site-packages/ferroce'
    monkeypatch.setattr(_command, '__file__', str(package / '_command.py'))
    elsewhere = program(tmp_path / 'elsewhere/ferroce')
    monkeypatch.setenv('PATH', str(elsewhere.parent))
    assert ferroce.command() == str(elsewhere)

    beside = program(tmp_path / 'bin/ferroce')
    assert ferroce.command() == str(beside)
    beside.chmod(0o644)
    assert ferroce.command() == str(elsewhere)
    monkeypatch.setenv('FERROCE_COMMAND', str(elsewhere))
    assert ferroce.command() == str(elsewhere)


@pytest.mark.parametrize(
    'package, command',
    [
        ('usr/lib/python3/dist-packages/ferroce', 'usr/bin/ferroce'),
        ('home/.local/share/ferroce/python/ferroce', 'home/.local/bin/ferroce'),
        ('checkout/tools/python/ferroce', 'checkout/target/release/ferroce'),
    ],
)
def test_each_way_of_installing_has_its_command(package, command, tmp_path, monkeypatch):
    monkeypatch.delenv('FERROCE_COMMAND', raising=False)
    monkeypatch.setenv('PATH', str(tmp_path))
    monkeypatch.setattr(_command, '__file__', str(tmp_path / package / '_command.py'))
    # Directories above may be anybody's.
    program(tmp_path / 'bin/ferroce')
    with pytest.raises(ferroce.CommandNotFound):
        ferroce.command()
    own = program(tmp_path / command)
    assert ferroce.command() == str(own)


def program(path):
    path.parent.mkdir(parents=True)
    path.write_text('#!/bin/sh\n')
    path.chmod(0o755)
    return path


def test_without_a_command_it_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv('FERROCE_COMMAND', str(tmp_path / 'none'))
    with pytest.raises(ferroce.CommandNotFound, match='none, which is no program: unset it, or install ferroce'):
        ferroce.command()

    monkeypatch.delenv('FERROCE_COMMAND')
    monkeypatch.setattr(_command, '__file__', str(tmp_path / 'ferroce/_command.py'))
    monkeypatch.setenv('PATH', str(tmp_path))
    with pytest.raises(ferroce.CommandNotFound, match='neither installed with .* nor in PATH: install ferroce') as missing:
        ferroce.command()
    assert missing.value.status == 127
