"""Money for people: the digits that a currency has, and thousands apart."""

from decimal import Decimal

from domain.money import NANO, minor_unit_nano


def digits(currency: str) -> int:
    """How many decimals an amount that can be paid has: 2 of CNY, 0 of JPY."""
    return len(str(NANO // minor_unit_nano(currency))) - 1


def exact(amount_nano: int, currency: str) -> Decimal:
    """What is payable as a decimal with the currency's digits."""
    return Decimal(amount_nano).scaleb(-9).quantize(Decimal(1).scaleb(-digits(currency)))


def shown(amount_nano: int, currency: str) -> str:
    """The same as text, such as 1,234.50."""
    return f"{exact(amount_nano, currency):,f}"
