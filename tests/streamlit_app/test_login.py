"""Nobody sees a figure without a token that is good at that moment."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from store.access import Principal, Role, revoke_token
from store.database import Database, now_us
from tests.streamlit_app.conftest import SPRING, Tokens
from tests.streamlit_app.pages import figures, words

OpenPage = Callable[[], AppTest]
LogIn = Callable[[str], AppTest]


@pytest.mark.usefixtures("ledger")
def test_the_first_thing_is_the_login(open_page: OpenPage) -> None:
    page = open_page()
    assert [field.label for field in page.text_input] == ["Token"]
    assert page.text_input[0].proto.type == page.text_input[0].proto.PASSWORD
    assert not figures(page)
    assert not page.exception


def test_a_token_typed_with_blanks_around_it_lets_in(log_in: LogIn, token_of: Tokens) -> None:
    page = log_in(f" {token_of.make(Role.TENANT, tenant='acme').secret}\n")
    assert not page.text_input
    assert "tenant acme" in words(page)


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.BILLING])
def test_staff_is_told_its_role(log_in: LogIn, token_of: Tokens, role: Role) -> None:
    assert role.value in words(log_in(token_of.make(role).secret))


def test_a_failed_try_says_nothing_of_what_was_wrong(log_in: LogIn, token_of: Tokens, ledger: Database) -> None:
    """No token, an unknown one, an expired one, a revoked one, and a good one of a node: the same words."""
    expired, revoked = token_of.make(Role.OPERATOR), token_of.make(Role.OPERATOR)
    token_of.expire(expired)
    with ledger.write() as connection:
        revoke_token(connection, Principal.local_operator(), revoked.token_id, now_us=now_us(connection))
    node = token_of.make(Role.NODE, node="n1")
    said = set()
    for secret in ("", "x" * 43, "密码", "' OR 1=1 --", expired.secret, revoked.secret, node.secret):
        page = log_in(secret)
        said.add(tuple(error.value for error in page.error))
        assert not figures(page)
        assert "token" not in page.session_state
    (words_,) = said
    assert words_ == ("This token does not open the explorer: check it, or ask your operator for a new one.",)


@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_token_that_ends_while_the_page_is_open_leads_back_to_the_login(
    log_in: LogIn, token_of: Tokens, ledger: Database, is_revoked: bool
) -> None:
    """At the next act, whatever it is; the old token is forgotten, and a new one lets in again."""
    token = token_of.make(Role.TENANT, tenant="acme")
    page = log_in(token.secret)
    page.date_input[0].set_value(SPRING).run()
    assert figures(page)
    if is_revoked:
        with ledger.write() as connection:
            revoke_token(connection, Principal.local_operator(), token.token_id, now_us=now_us(connection))
    else:
        token_of.expire(token)
    page.date_input[0].set_value(SPRING[:1]).run()
    # A browser may run it twice for one click.
    for _ in range(2):
        assert [warning.value for warning in page.warning] == [
            "You have been logged out: your token has expired or was revoked. Log in with a new one."
        ]
        page.run()
    assert not figures(page)
    assert "token" not in page.session_state
    page.text_input[0].set_value(token_of.make(Role.TENANT, tenant="acme").secret)
    page.button[0].click().run()
    assert "tenant acme" in words(page)
    assert not page.warning


def test_logging_out_forgets_the_token(log_in: LogIn, token_of: Tokens) -> None:
    page = log_in(token_of.make(Role.OPERATOR).secret)
    page.button[0].click().run()
    assert page.text_input
    assert "token" not in page.session_state
    assert not page.warning


def test_a_token_is_in_no_message_and_no_address(
    log_in: LogIn, token_of: Tokens, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = token_of.make(Role.OPERATOR).secret
    page = log_in(secret)
    log_in(f"{secret}x")
    assert secret not in str(dict(page.query_params))
    assert secret not in words(page)
    assert secret not in caplog.text
    assert secret not in "".join(capfd.readouterr())
