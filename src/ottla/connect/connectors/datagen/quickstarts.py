"""Ready-made schemas, with the field names that tutorials use: `quickstart=users`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Avro = dict[str, Any]


class Quickstart(NamedTuple):
    """A schema, and the field that is the records' key."""

    schema: Avro
    key_field: str


def _of(kind: str, **arguments: Any) -> Any:
    return {"type": kind, "arg.properties": arguments} if arguments else kind


def _options(*values: Any) -> Any:
    kind = "string" if isinstance(values[0], str) else "int"
    return _of(kind, options=list(values))


def _range(kind: str, least: float, most: float) -> Any:
    return _of(kind, range={"min": least, "max": most})


def _count(kind: str, start: int, step: int = 1, restart: int | None = None) -> Any:
    iteration = {"start": start, "step": step} | ({} if restart is None else {"restart": restart})
    return _of(kind, iteration=iteration)


def _regex(pattern: str) -> Any:
    return _of("string", regex=pattern)


def _record(name: str, /, **fields: Any) -> Avro:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "ottla.datagen", "fields": listed}


_YEAR_2017_MS: Final = 1_487_715_775_521
_YEAR_2018_MS: Final = 1_519_273_364_600
_USER: Final = _regex("User_[1-9]")
_REGION: Final = _regex("Region_[1-9]")
_CITIES: Final = _options("Berlin", "Lagos", "Lima", "London", "Mumbai", "Oslo", "Raleigh", "Tokyo")
_FIRST_NAMES: Final = _options("Abdel", "Antonio", "Curran", "Elodie", "Hanna", "Ivan", "Marleen", "Yuki")
_LAST_NAMES: Final = _options("Adams", "Brown", "Garcia", "Ito", "Kowalski", "Okafor", "Schmidt", "Trice")

QUICKSTARTS: Final[dict[str, Quickstart]] = {
    "users": Quickstart(
        _record(
            "users",
            registertime=_range("long", _YEAR_2017_MS, _YEAR_2018_MS),
            userid=_USER,
            regionid=_REGION,
            gender=_options("MALE", "FEMALE", "OTHER"),
        ),
        "userid",
    ),
    "users_": Quickstart(
        _record(
            "users_",
            registertime=_range("long", _YEAR_2017_MS, _YEAR_2018_MS),
            userid=_USER,
            regionid=_REGION,
            gender=_options("MALE", "FEMALE", "OTHER"),
            interests={"type": "array", "items": _options("Game", "Movies", "News", "Sport", "Travel")},
            contactinfo={
                "type": "map",
                "values": _regex("[a-z]{4,10}"),
                "arg.properties": {
                    "length": {"min": 1, "max": 3},
                    "keys": {"options": ["city", "phone", "state", "zipcode"]},
                },
            },
        ),
        "userid",
    ),
    "pageviews": Quickstart(
        _record("pageviews", viewtime=_count("long", 1, 10), userid=_USER, pageid=_regex("Page_[1-9][0-9]")),
        "viewtime",
    ),
    "orders": Quickstart(
        _record(
            "orders",
            ordertime=_range("long", _YEAR_2017_MS, _YEAR_2018_MS),
            orderid=_count("int", 0),
            itemid=_regex("Item_[1-9][0-9]{0,2}"),
            orderunits=_range("double", 0.1, 10.0),
            address=_record(
                "address",
                city=_regex("City_[1-9][0-9]?"),
                state=_regex("State_[1-9][0-9]?"),
                zipcode=_range("long", 10_000, 99_999),
            ),
        ),
        "orderid",
    ),
    "stock_trades": Quickstart(
        _record(
            "StockTrade",
            side=_options("BUY", "SELL"),
            quantity=_range("int", 1, 5000),
            symbol=_options("ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"),
            price=_range("int", 5, 1000),
            account=_options("ABC123", "LMN456", "XYZ789"),
            userid=_USER,
        ),
        "symbol",
    ),
    "clickstream": Quickstart(
        _record(
            "clickstream",
            ip=_regex("(111|122|222|233)\\.(90|152|168|203)\\.(126|145|173|222)\\.[1-9][0-9]"),
            userid=_range("int", 1, 40),
            remote_user=_options("-"),
            time=_count("string", 1, 10),
            _time=_count("long", 1, 10),
            request=_options(
                "GET /index.html HTTP/1.1",
                "GET /site/login.html HTTP/1.1",
                "GET /site/user_status.html HTTP/1.1",
                "GET /images/track.png HTTP/1.1",
                "GET /images/logo-small.png HTTP/1.1",
            ),
            status=_options("200", "302", "404", "405", "406", "407"),
            bytes=_options("278", "1289", "2048", "4096", "4006", "4196", "14096"),
            referrer=_options("-"),
            agent=_options(
                "Mozilla/5.0 (X11; Linux x86_64)", "Googlebot/2.1 (+http://www.google.com/bot.html)"
            ),
        ),
        "ip",
    ),
    "clickstream_codes": Quickstart(
        _record(
            "clickstream_codes",
            code=_options(200, 302, 404, 405, 406, 407),
            definition=_options("Successful", "Redirect", "Page not found", "Not acceptable"),
        ),
        "code",
    ),
    "clickstream_users": Quickstart(
        _record(
            "clickstream_users",
            user_id=_count("int", 1, restart=1000),
            username=_regex("[a-z]{4,8}_[0-9]{2}"),
            registered_at=_range("long", _YEAR_2017_MS, _YEAR_2018_MS),
            first_name=_FIRST_NAMES,
            last_name=_LAST_NAMES,
            city=_CITIES,
            level=_options("Gold", "Platinum", "Silver"),
        ),
        "user_id",
    ),
    "ratings": Quickstart(
        _record(
            "ratings",
            rating_id=_count("long", 1),
            user_id=_range("int", 1, 20),
            stars=_range("int", 1, 5),
            route_id=_range("int", 1, 10_000),
            rating_time=_count("long", 1, 12),
            channel=_options("android", "ios", "ios-test", "web"),
            message=_options("", "airport refurb looks great", "is this as good as it gets?", "thank you!"),
        ),
        "rating_id",
    ),
    "inventory": Quickstart(
        _record(
            "inventory",
            id=_count("long", 0),
            quantity=_range("int", 0, 100),
            productid=_range("int", 1, 50),
        ),
        "id",
    ),
    "product": Quickstart(
        _record(
            "product",
            id=_count("long", 0),
            name=_regex("[A-Z][a-z]{3,9}"),
            description=_regex("[a-z]{3,8}( [a-z]{3,8}){2,6}"),
            price=_range("float", 1.0, 500.0),
        ),
        "id",
    ),
    "purchases": Quickstart(
        _record(
            "purchase",
            id=_count("long", 0),
            item_type=_options("beverage", "bread", "fruit", "toy", "vegetable"),
            quantity=_range("int", 1, 20),
            price_per_unit=_range("double", 0.5, 50.0),
        ),
        "id",
    ),
    "transactions": Quickstart(
        _record(
            "transaction",
            transaction_id=_count("long", 1),
            card_id=_range("long", 1, 20),
            user_id=_USER,
            purchase_id=_count("long", 0),
            store_id=_range("int", 1, 7),
        ),
        "transaction_id",
    ),
    "stores": Quickstart(
        _record(
            "stores",
            store_id=_count("int", 1, restart=8),
            city=_CITIES,
            state=_regex("[A-Z]{2}"),
        ),
        "store_id",
    ),
    "credit_cards": Quickstart(
        _record(
            "credit_cards",
            card_id=_count("long", 1),
            card_number=_regex("[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{4}"),
            cvv=_regex("[0-9]{3}"),
            expiration_date=_regex("(0[1-9]|1[0-2])/2[5-9]"),
        ),
        "card_id",
    ),
    "campaign_finance": Quickstart(
        _record(
            "campaign_finance",
            time=_count("long", 1, 10),
            cand_id=_regex("Candidate_[1-9]"),
            party_affiliation=_options("Alpha", "Beta", "Gamma"),
            contribution=_range("long", 1, 5000),
        ),
        "time",
    ),
}
