#!/usr/bin/python3
"""Field cases: inputs from public reports that hurt routers of this family.

Each function is one case or variant, named after its number. It reports what
the router did; the Go test that runs it says what it should have done.
"""

import collections
import time

from proton import Delivery, Endpoint, Message

import report
from wire import LIMIT, Peer, query, rss, wait

MB = b"0123456789abcdef" * 65536  # 1 MB of body


def beginning(size):
    """The first size bytes of a message that is longer."""
    return Message(body=b"x" * (2 * size)).encode()[:size]


def pair(url):
    """A consumer and a sender, at the two routers of URL+URL, or both at one."""
    first, _, second = url.partition("+")
    return Peer(second or first), Peer(first)


# U10: sessions torn down under load.

def u10(url, pid, rounds, senders, end):
    """Unfinished messages on many links, then End, or Close, with no Detach."""
    consumer = Peer(url)
    receiver = consumer.receiver("s", credit=1000)
    consumer.wait(receiver.attached)

    result = {"rss": []}
    peer = Peer(url, session=False)
    for _ in range(int(rounds)):
        session = peer.new_session()
        outs = [peer.sender("s", session=session) for _ in range(int(senders))]
        wait(lambda: all(out.credit for out in outs), peer, consumer, what="credit")
        for i, out in enumerate(outs):
            # The first is long enough to be forwarded while it arrives (RT F59).
            out.start(beginning(200000 if i == 0 else 1000))
        wait(lambda: not peer.unwritten(), peer, consumer, what="flush")
        if end == "end":
            session.close()
            wait(lambda: session.state & Endpoint.REMOTE_CLOSED or peer.error, peer, consumer, what="end")
            result["error"] = peer.error
        else:
            peer.close()
            result["error"] = peer.error
            peer = Peer(url, session=False)
        result["rss"].append(rss(pid))
    result.update(good_message(peer, consumer, receiver, "s"))
    peer.close()
    consumer.close()
    return result


def u10_refused(url, rounds, links):
    """End while the router is refusing half of the attaches.

    Its refusal is an attach and at once a detach, so the credit that follows
    our attach of a receiver reaches a link the router has already detached.
    """
    consumer = Peer(url)
    receiver = consumer.receiver("s", credit=1000)
    consumer.wait(receiver.attached)

    peer = Peer(url, session=False)
    for _ in range(int(rounds)):
        session = peer.new_session()
        peer.wait(lambda: session.state & Endpoint.REMOTE_ACTIVE, what="begin")
        for i in range(int(links) // 2):
            peer.sender("s", session=session)
            if i % 2:
                peer.sender("nowhere.%d" % i, session=session)
            else:
                peer.receiver("nowhere.%d" % i, credit=10, session=session)
        peer.flush()
        session.close()
        peer.wait(lambda: session.state & Endpoint.REMOTE_CLOSED or peer.error, what="end")
    result = {"error": peer.error}
    result.update(good_message(peer, consumer, receiver, "s"))
    peer.close()
    consumer.close()
    return result


def good_message(peer, consumer, receiver, address):
    """Passes a whole message on a new session, and tells what else had come."""
    session = peer.new_session()
    out = peer.sender(address, session=session)
    peer.wait(lambda: out.credit)
    out.send(Message(body="good"))
    wait(lambda: out.decided() and not receiver.partial, peer, consumer, what="outcome of the good message")
    return {"whole": receiver.bodies(), "outcomes": out.outcomes}


# U11: the tail of a large message.

def u11_close(url, drop):
    """All of a settled message, then Close, or the end of the connection."""
    consumer, peer = pair(url)
    receiver = consumer.receiver("tail", credit=1)
    consumer.wait(receiver.attached)
    out = peer.sender("tail")
    out.wait_credit()
    out.send(Message(body=MB), settled=True)
    if drop == "drop":
        wait(lambda: not peer.unwritten(), peer, consumer, what="flush")
        peer.hang_up()
    else:
        peer.connection.close()
        wait(lambda: peer.closed, peer, consumer, what="close")
    wait(lambda: receiver.messages, consumer, what="the message")
    peer.drop()
    result = {"intact": receiver.bodies() == [MB], "aborted": receiver.aborted}
    consumer.close()
    return result


def u11_leave(url, count):
    """The receiver leaves after the first of many, the sender goes on."""
    consumer, peer = pair(url)
    receiver = consumer.receiver("leave", credit=100)
    consumer.wait(receiver.attached)
    out = peer.sender("leave")
    out.wait_credit()
    for i in range(int(count)):
        out.send(Message(id=i, body=MB))
    wait(lambda: receiver.messages, peer, consumer, what="the first message")
    received = len(receiver.messages)
    receiver.close()
    start = time.monotonic()
    wait(lambda: out.decided() == int(count), peer, consumer, what="all outcomes")
    result = {"outcomes": out.outcomes, "seconds": time.monotonic() - start, "received": received}
    peer.close()
    consumer.close()
    return result


def wait_destinations(peer, address, count):
    """Waits until the peer's router counts so many, itself and others."""
    def destinations():
        return sum(row["subscriberCount"] + row["remoteCount"]
                   for row in query(peer, "router.address", ["name", "subscriberCount", "remoteCount"])
                   if row["name"] == "M0" + address)
    deadline = time.monotonic() + LIMIT
    while destinations() != count:
        if time.monotonic() > deadline:
            raise TimeoutError("%d destinations of %s not within %s s" % (count, address, LIMIT))
        time.sleep(0.1)


def u11_settled(url, count):
    """As u11_leave with settled messages, and a new receiver for the second half."""
    half = int(count) // 2
    consumer, peer = pair(url)
    first = consumer.receiver("settled", credit=100)
    consumer.wait(first.attached)
    out = peer.sender("settled")
    out.wait_credit(2 * half)
    for i in range(half):
        out.send(Message(id=i, body=MB), settled=True)
    wait(lambda: first.messages, peer, consumer, what="the first message")
    first.close()
    wait(lambda: first.detached and not peer.unwritten(), peer, consumer, what="the first half to be read")
    wait_destinations(peer, "settled", 0)
    second = consumer.receiver("settled", credit=100)
    consumer.wait(second.attached)
    wait_destinations(peer, "settled", 1)
    for i in range(half, 2 * half):
        out.send(Message(id=i, body=MB), settled=True)

    def later():
        ids = []
        for data in second.messages:
            message = Message()
            message.decode(data)
            ids.append(message.id)
        return [i for i in ids if i >= half]
    wait(lambda: len(second.messages) >= half and len(later()) == half, peer, consumer, what="the second half")
    result = {"later": len(later())}
    peer.close()
    consumer.close()
    return result


# U12: aborted deliveries.

def u12(url, pid, address, receivers, thirsty, count, size):
    """Deliveries aborted after size bytes, then a good one.

    Of the receivers the last thirsty ones have no credit until the end.
    """
    count, receivers, thirsty = int(count), int(receivers), int(thirsty)
    consumer, peer = pair(url)
    ins = [consumer.receiver(address, credit=100 if i < receivers - thirsty else 0) for i in range(receivers)]
    consumer.wait(lambda: all(i.attached() for i in ins))
    out = peer.sender(address)
    out.wait_credit()
    result = {"credit_at_start": out.credit}
    data = beginning(int(size))
    for n in range(count):
        wait(lambda: out.credit, peer, consumer, what="credit after %d aborted" % n)
        delivery = out.start(data)
        wait(lambda: not peer.unwritten(), peer, consumer, what="flush")
        delivery.abort()
        if n == max(count // 10, 50):  # warmed up
            result["rss_early"] = rss(pid)
    wait(lambda: out.credit == result["credit_at_start"], peer, consumer, what="the credit of the start")
    result["rss_late"] = rss(pid)
    out.send(Message(body="good"))
    for i in ins[receivers - thirsty:]:
        i.link.flow(1)
    wait(lambda: out.decided(), peer, consumer, what="outcome of the good message")
    wait(lambda: out.credit == result["credit_at_start"], peer, consumer, what="the credit of the start, again")
    result.update(whole=[i.bodies() for i in ins], partial=sum(i.partial for i in ins), outcomes=out.outcomes,
                  credit_at_end=out.credit)
    peer.close()
    consumer.close()
    return result


# U14: senders with nobody home.

def u14_anonymous(url, count, settled):
    """Messages to three configured addresses and one that is not, without receivers."""
    names = ["closest", "balanced", "multicast", "unknown"]
    settled = settled == "settled"
    peer = Peer(url)
    dropped = query(peer, "router", ["droppedPresettledDeliveries"])[0]["droppedPresettledDeliveries"]
    out = peer.sender(None)
    out.wait_credit()
    start = out.credit
    address = {}
    for i in range(int(count)):
        out.wait_credit()
        name = names[i % len(names)]
        address[out.send(Message(address=name + "/nobody", body=i), settled=settled)] = name
    result = {"detached": out.detached}
    if settled:
        peer.flush()

        def count_dropped():
            return query(peer, "router", ["droppedPresettledDeliveries"])[0]["droppedPresettledDeliveries"] - dropped
        # The messages are on the same connection as the query, before it.
        result["dropped"] = count_dropped()
    else:
        peer.wait(lambda: out.decided() == int(count), what="all outcomes")
        result["outcomes"] = {name: collections.Counter() for name in names}
        for tag, outcome in out.by_tag.items():
            result["outcomes"][address[tag]][outcome] += 1
        result["conditions"] = out.conditions
    peer.wait(lambda: out.credit == start, what="the credit of the start")
    peer.close()
    return result


def u14_named(url):
    """Senders that name their target: drained when its last receiver has left."""
    result = {}
    for name in "closest", "balanced", "multicast":
        peer, consumer = Peer(url), Peer(url)
        receiver = consumer.receiver(name + "/gone", credit=10)
        consumer.wait(receiver.attached)
        out = peer.sender(name + "/gone")
        out.wait_credit()
        receiver.close()
        consumer.wait(lambda: receiver.detached)
        out.send(Message(body="nobody home"))
        peer.wait(lambda: out.decided() and out.link.drain_mode, what="outcome and drain")
        result[name] = {"outcomes": out.outcomes, "credit": out.credit}
        peer.close()
        consumer.close()
    peer = Peer(url)
    out = peer.sender("unknown/gone")
    peer.wait(lambda: out.detached, what="refusal")
    result["unknown"] = {"error": out.error, "target": out.link.remote_target.address}
    peer.close()
    return result


# U19: prefetch and sudden death.

def u19(url):
    peer, first = Peer(url), Peer(url)
    receiver = first.receiver("prefetch", credit=10, answer=None)
    first.wait(receiver.attached)
    out = peer.sender("prefetch")
    out.wait_credit(20)
    for i in range(20):
        out.send(Message(body=i))
    wait(lambda: len(receiver.messages) == 10, peer, first, what="the prefetch")
    accepted = receiver.bodies()[0]
    receiver.unsettled[0].update(Delivery.ACCEPTED)
    receiver.unsettled[0].settle()
    wait(lambda: out.outcomes["accepted"], peer, first, what="the first outcome")
    first.drop()
    wait(lambda: out.outcomes["modified"], peer, what="outcome of what was on the wire")
    second = Peer(url)
    last = second.receiver("prefetch", credit=20)
    wait(lambda: out.decided() == 20, peer, second, what="all outcomes")
    again = last.bodies()
    result = {"outcomes": out.outcomes, "delivered_again": accepted in again, "to_second": len(again)}
    peer.close()
    second.close()
    return result


# U22: odd addresses.

def u22(url):
    """A receiver, a sender and an anonymous sender for each odd name."""
    long_name = "n" * 2000
    cases = {
        "plain": ("x", "x"), "underscore": ("_x", "_x"), "almost local": ("_localx", "_localx"),
        "both separators": ("a/b.c", "a/b.c"), "scheme": ("amqp:/x", "x"), "scheme and host": ("amqp://host/x", "x"),
        "long": (long_name, long_name), "accents": ("caf\u00e9/\u00fcber", "caf\u00e9/\u00fcber"),
        "trailing slash": ("x/", "x"),
    }
    consumer, peer = pair(url)
    anonymous = peer.sender(None)
    anonymous.wait_credit()
    result = {}
    for name, (address, plain) in cases.items():
        receiver = consumer.receiver(address, credit=10)
        consumer.wait(receiver.attached, what=name)
        out = peer.sender(address)
        out.wait_credit()
        out.send(Message(body="named"))
        before = anonymous.decided()
        tag = anonymous.send(Message(address=address, body="anonymous"))
        wait(lambda: out.decided() and anonymous.decided() > before, peer, consumer, what="outcomes for " + name)
        keys = [row["name"] for row in query(consumer, "router.address", ["name"])]
        result[name] = {
            "named": list(out.outcomes), "anonymous": anonymous.by_tag[tag], "received": sorted(receiver.bodies()),
            "shown": "M0" + plain in keys,
        }
        out.close()
        receiver.close()
        wait(lambda: out.detached and receiver.detached, peer, consumer)
    before = anonymous.decided()
    tag = anonymous.send(Message(address="", body="to nobody"))
    peer.wait(lambda: anonymous.decided() > before, what="outcome for the empty name")
    result["empty"] = {"anonymous": anonymous.by_tag[tag]}
    peer.close()
    consumer.close()
    return result


# U30: many links, and churn.

def u30_links(url, pid, connections, links):
    """Receivers on addresses of their own, a message to each, and all closed."""
    connections, links = int(connections), int(links)
    result = {"rss_start": rss(pid)}
    start = time.monotonic()
    sending = Peer(url)
    out = sending.sender(None)
    out.wait_credit()
    peers = [Peer(url) for _ in range(connections)]
    ins = {}
    for i, peer in enumerate(peers):
        for j in range(links):
            ins["u30/%d/%d" % (i, j)] = peer.receiver("u30/%d/%d" % (i, j), credit=1)
        wait(lambda: all(r.attached() for r in list(ins.values())[-links:]), *peers, sending, what="attaches")
    result["rss_links"] = rss(pid)
    for address in ins:
        wait(lambda: out.credit, *peers, sending, what="credit")
        out.send(Message(address=address, body=address))
    wait(lambda: out.decided() == len(ins), *peers, sending, limit=60, what="all outcomes")
    result.update(seconds=time.monotonic() - start, outcomes=out.outcomes, links=len(ins),
                  right=sum(r.bodies() == [address] for address, r in ins.items()))
    for peer in peers:
        peer.close()
    sending.close()
    return result


def u30_churn(url, pid, rounds, links):
    """Links attached and detached on one connection, over and over."""
    peer = Peer(url)
    result = {"rss": []}
    for n in range(int(rounds)):
        ins = [peer.receiver("churn/%d" % i, credit=1, name="%d.%d" % (n, i)) for i in range(int(links))]
        peer.wait(lambda: all(i.attached() for i in ins), what="attaches")
        for i in ins:
            i.close()
        peer.wait(lambda: all(i.detached for i in ins), what="detaches")
        for i in ins:
            del peer.links[i.link.name]
            i.link.free()
        result["rss"].append(rss(pid))
    result["error"] = peer.error
    peer.close()
    return result


def u30_vanish(url, connections):
    """Connections that attach a pair and are never heard of again, their sockets open."""
    asking = Peer(url)

    def counts():
        row = query(asking, "router", ["connectionCount", "linkCount"])[0]
        return row["connectionCount"], row["linkCount"]

    before = counts()
    vanished = []
    for _ in range(int(connections)):
        peer = Peer(url)
        receiver, out = peer.receiver("vanish", credit=1), peer.sender("vanish")
        peer.wait(lambda: receiver.attached() and out.credit, what="a pair")
        vanished.append(peer)
        asking.work()
        asking.tick()
    start = time.monotonic()
    while counts() != before:
        if time.monotonic() - start > 60:
            raise TimeoutError("counts are %s, were %s" % (counts(), before))
    asking.close()
    return {"vanished": len(vanished), "back": True}


def runs(case):
    return lambda url, *args: case(url, *args)


report.main({name: runs(case) for name, case in list(globals().items()) if name.startswith("u") and name[1:2].isdigit()})
