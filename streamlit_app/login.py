"""Who is looking: a token, kept in the state of the browser session alone and asked of the database at every run."""

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import streamlit as st

from domain.errors import AccessError
from store.access import Principal, Role, authenticate
from store.database import Database, now_us

_TOKEN = "token"  # noqa: S105 - the name of a place, not a token
_NOTICE = "notice"
_TOKEN_CHARACTERS_MAX = 256
_ABOUT = (
    "What was spent on GPUs, by tenant and billing day. Log in with a token of role tenant, billing or operator; an "
    "operator makes one by `gputab token create`."
)
# Of a failed try it says nothing of what was wrong with it.
_REFUSED = "This token does not open the explorer: check it, or ask your operator for a new one."
_ENDED = "You have been logged out: your token has expired or was revoked. Log in with a new one."


def admitted(database: Database) -> Principal:
    """Whose token this browser session holds; where it holds none that is good now, the login, and the run ends."""
    token = st.session_state.get(_TOKEN)
    if token is None:
        _ask_for_token(database)
    try:
        return _principal(database, token)
    except AccessError:
        log_out()
        # Whatever runs before the next login says it again: a click may run twice.
        st.session_state[_NOTICE] = _ENDED
        _ask_for_token(database)


def still_admitted(database: Database) -> Callable[[], Principal]:
    """A check of the session's token for what is done after this run, such as a download: it raises AccessError."""
    return partial(_principal, database, st.session_state[_TOKEN])


def log_out() -> None:
    """Forget the token; the next run shows the login."""
    st.session_state.pop(_TOKEN, None)


def _principal(database: Database, token: str) -> Principal:
    with database.read() as connection:
        found = authenticate(connection, token, now_us=now_us(connection))
    found.require(Role.TENANT, Role.BILLING, Role.OPERATOR)
    return found


def _ask_for_token(database: Database) -> NoReturn:
    _, middle, _ = st.columns([1, 2, 1])
    with middle:
        st.title("gputab", anchor=False)
        st.markdown(_ABOUT)
        if notice := st.session_state.get(_NOTICE):
            st.warning(notice)
        with st.form("login", clear_on_submit=True):
            typed = st.text_input("Token", type="password", max_chars=_TOKEN_CHARACTERS_MAX)
            is_sent = st.form_submit_button("Log in", type="primary")
        if is_sent and _is_good(database, typed.strip()):
            st.session_state[_TOKEN] = typed.strip()
            st.session_state.pop(_NOTICE, None)
            st.rerun()
        if is_sent:
            st.error(_REFUSED)
    st.stop()


def _is_good(database: Database, token: str) -> bool:
    try:
        _principal(database, token)
    except AccessError:
        return False
    return True
