"""The explorer's entry: which ledger, who is looking, which page. Streamlit runs it at every act of a person."""

from functools import partial

import streamlit as st

from domain.errors import GputabError
from settings.gputab import load_settings
from store.access import Principal
from store.database import Database
from store.migrate import check
from streamlit_app import login
from streamlit_app.views import spend

# Streamlit leaves the height of a toolbar above a page, and we have none; and its segmented control is lower than the
# inputs beside it.
_STYLE = """<style>
[data-testid='stMainBlockContainer'] { padding-top: 2rem; }
[data-testid='stButtonGroup'] button { min-height: 2.5rem; }
</style>"""


def main() -> None:
    """Draw the page that is asked for, or say in one line why it cannot be drawn."""
    st.set_page_config(page_title="gputab · spend", layout="wide")
    try:
        database = _open_ledger(load_settings().database_url)
        principal = login.admitted(database)
        _show_heading(principal)
        show = partial(spend.show, database, principal, login.still_admitted(database))
        st.navigation([st.Page(show, title="Spend", url_path="spend", default=True)]).run()
    except GputabError as error:
        st.error(str(error))


@st.cache_resource(show_spinner=False, on_release=Database.close)
def _open_ledger(url: str) -> Database:
    """One for all browsers. What is refused is not kept, so that the next run tries again."""
    database = Database(url)
    try:
        check(database)
    except BaseException:
        database.close()
        raise
    return database


def _show_heading(principal: Principal) -> None:
    st.html(_STYLE)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.header("gputab · spend", anchor=False, width="content")
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.caption(f"tenant {principal.tenant}" if principal.tenant else principal.role, width="content")
            st.button("Log out", on_click=login.log_out)


main()
