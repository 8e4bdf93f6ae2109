"""An AMQP peer on Proton's engine that does one thing at a time.

A test that must choose what is on the wire, and when, cannot leave that to an
event loop. A Peer acts when it is told to: what it writes goes out, and what
the router sent comes in, inside wait() and flush(), and nowhere else. A Peer
nobody waits on is like a process that was stopped: it keeps its socket and
does not even send empty frames.

Its links are wrapped as Out (we send) and In (we receive). They take down what
happened to them.
"""

import collections
import errno
import os
import resource
import select
import socket
import time
import urllib.parse

from proton import Collector, Connection, Delivery, Event, Endpoint, Message, Transport

LIMIT = 30  # seconds a wait may take unless it says otherwise

_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))


def rss(pid):
    """Resident memory of a process, in bytes."""
    with open("/proc/%s/statm" % pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait(condition, *peers, limit=LIMIT, what=""):
    """Lets the peers read and write until condition() holds.

    It does not wait on a peer whose connection failed.
    """
    deadline = time.monotonic() + limit
    poll = select.poll()
    by_fd = {}
    for peer in peers:
        if peer.sock:
            by_fd[peer.sock.fileno()] = peer
            poll.register(peer.sock, 0)
    for peer in peers:
        peer.work()
    while not condition():
        for peer in peers:
            if peer.error:
                raise ConnectionError("waiting for %s: %s" % (what or "condition", peer.error))
        left = deadline - time.monotonic()
        if left < 0:
            raise TimeoutError("%s not within %s s" % (what or "condition", limit))
        for fd, peer in list(by_fd.items()):
            if not peer.sock:
                poll.unregister(fd)
                del by_fd[fd]
                continue
            poll.modify(fd, select.POLLIN | (select.POLLOUT if peer.unwritten() else 0))
        for fd, event in poll.poll(min(left, 1) * 1000):
            by_fd[fd].work(event)
        for peer in by_fd.values():
            peer.tick()


class Peer:
    """One connection to the router, opened, with one session unless told otherwise."""

    def __init__(self, url, max_frame_size=16384, session=True, open=True, channel_max=None):
        parts = urllib.parse.urlparse(url)
        self.sock = socket.create_connection((parts.hostname, parts.port), LIMIT)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.error = None         # the condition of a transport error, or of the close we got
        self.closed = False       # close received
        self.links = {}
        self.collector = Collector()
        self.connection = Connection()
        self.connection.collect(self.collector)
        self.connection.container = "wire-%d-%d" % (os.getpid(), self.sock.fileno())
        self.connection.hostname = parts.hostname
        self.transport = Transport(Transport.CLIENT)
        self.transport.max_frame_size = max_frame_size
        if channel_max is not None:
            self.transport.channel_max = channel_max
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.new_session() if session else None
        if open:
            self.wait(lambda: self.connection.state & Endpoint.REMOTE_ACTIVE, what="open")

    def new_session(self):
        session = self.connection.session()
        session.open()
        return session

    def sender(self, address, name=None, session=None, settled=False):
        """Attaches a sender; None as address makes it anonymous. Does not wait."""
        return Out(self, address, name, session or self.session, settled)

    def receiver(self, address, credit=0, name=None, session=None, dynamic=False, answer=Delivery.ACCEPTED):
        """Attaches a receiver and grants credit. Does not wait.

        Complete deliveries get the state answer and are settled; with None
        they are left alone.
        """
        return In(self, address, credit, name, session or self.session, dynamic, answer)

    # Reading and writing.

    def wait(self, condition, limit=LIMIT, what=""):
        wait(condition, self, limit=limit, what=what)

    def unwritten(self):
        """How many bytes are ready for the socket."""
        return max(0, self.transport.pending())

    def flush(self):
        """Returns when the kernel has all that was to be written."""
        self.wait(lambda: not self.unwritten(), what="flush")

    def work(self, ready=select.POLLIN | select.POLLOUT):
        """Reads and writes what goes without waiting, and takes in the events."""
        if not self.sock:
            return
        if ready & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._read()
        self._events()
        self._write()
        self._events()

    def tick(self):
        self.transport.tick(time.monotonic())

    def _read(self):
        while self.sock:
            room = self.transport.capacity()
            if room <= 0:
                return
            try:
                data = self.sock.recv(min(room, 65536))
            except BlockingIOError:
                return
            except OSError as e:
                self._gone(errno.errorcode[e.errno])
                return
            if not data:
                self._gone("end of stream")
                return
            self.transport.push(data)
            self._events()

    def _write(self):
        while self.sock and self.unwritten():
            try:
                sent = self.sock.send(self.transport.peek(self.unwritten()))
            except BlockingIOError:
                return
            except OSError as e:
                self._gone(errno.errorcode[e.errno])
                return
            self.transport.pop(sent)
            self._events()

    def _gone(self, why):
        if not self.closed and not self.connection.state & Endpoint.LOCAL_CLOSED:
            self.error = self.error or why
        self.drop()

    def _events(self):
        while True:
            event = self.collector.peek()
            if not event:
                return
            if event.type == Event.DELIVERY:
                self.links[event.delivery.link.name].on_delivery(event.delivery)
            elif event.type == Event.LINK_REMOTE_CLOSE:
                self.links[event.link.name].on_close(event.link)
            elif event.type == Event.CONNECTION_REMOTE_CLOSE:
                self.closed = True
                if event.connection.remote_condition:
                    self.error = event.connection.remote_condition.name
            elif event.type == Event.TRANSPORT_ERROR:
                self.error = self.error or str(event.transport.condition)
            self.collector.pop()

    # Ending.

    def close(self):
        """Closes the connection as AMQP does, and waits for the answer."""
        self.connection.close()
        self.wait(lambda: self.closed or not self.sock, what="close")
        self.flush()
        self.drop()

    def hang_up(self):
        """Ends our half of the TCP connection, with no word of AMQP.

        Unlike drop(), it cannot turn into a reset, after which the router
        would not get what is still under way.
        """
        self.sock.shutdown(socket.SHUT_WR)

    def drop(self):
        """Closes the socket and nothing else."""
        if self.sock:
            self.sock.close()
            self.sock = None


class Out:
    """A link on which we send.

    outcomes counts how deliveries were settled, by name; "none" is settled
    without a state. conditions has the error of each rejected one.
    """

    def __init__(self, peer, address, name, session, settled):
        self.peer = peer
        self.link = session.sender(name or "out-%d" % len(peer.links))
        if address is not None:
            self.link.target.address = address
        if settled:
            self.link.snd_settle_mode = self.link.SND_SETTLED
        self.outcomes = collections.Counter()
        self.conditions = collections.Counter()
        self.by_tag = {}       # outcome by delivery tag
        self.detached = False
        self.error = None
        self.tags = 0
        peer.links[self.link.name] = self
        self.link.open()

    @property
    def credit(self):
        return self.link.credit

    def wait_credit(self, n=1):
        self.peer.wait(lambda: self.link.credit >= n or self.detached, what="credit on %s" % self.link.name)
        if self.detached:
            raise Exception("%s was detached: %s" % (self.link.name, self.error))

    def start(self, data):
        """Begins a delivery with data, and does not end it."""
        self.tags += 1
        delivery = self.link.delivery("%d" % self.tags)
        self.link.stream(data)
        return delivery

    def finish(self, delivery, data=b"", settled=False):
        """Sends the rest of a delivery that start() began."""
        if data:
            self.link.stream(data)
        if settled:
            delivery.settle()
        self.link.advance()

    def send(self, message, settled=False):
        """Sends a whole message, or its encoding. Does not wait for credit."""
        data = message if isinstance(message, bytes) else message.encode()
        delivery = self.start(data)
        tag = delivery.tag
        self.finish(delivery, settled=settled)
        return tag

    def on_delivery(self, delivery):
        # A state and the settlement that follows it are two events; both may
        # be waiting when the first is looked at.
        if not delivery.updated or not delivery.settled or delivery.tag in self.by_tag:
            return
        state = delivery.remote_state
        name = str(state).lower() if state else "none"
        self.outcomes[name] += 1
        self.by_tag[delivery.tag] = name
        if delivery.remote.condition:
            self.conditions[delivery.remote.condition.name] += 1
        delivery.settle()

    def decided(self):
        """How many deliveries were settled."""
        return sum(self.outcomes.values())

    def on_close(self, link):
        self.detached = True
        if link.remote_condition:
            self.error = link.remote_condition.name

    def close(self):
        self.link.close()


class In:
    """A link on which we receive.

    messages are the complete deliveries, as bytes. partial is how many are not
    complete yet, aborted how many never will be.
    """

    def __init__(self, peer, address, credit, name, session, dynamic, answer):
        self.peer = peer
        self.link = session.receiver(name or "in-%d" % len(peer.links))
        if address is not None:
            self.link.source.address = address
        self.link.source.dynamic = dynamic
        self.answer = answer
        self.messages = []
        self.unsettled = []
        self.buffers = {}      # of deliveries not complete, by tag
        self.aborted = 0
        self.keep = True       # keep the bytes; otherwise messages has lengths
        self.detached = False
        self.error = None
        peer.links[self.link.name] = self
        self.link.open()
        if credit:
            self.link.flow(credit)

    @property
    def address(self):
        return self.link.remote_source.address

    @property
    def partial(self):
        return len(self.buffers)

    def on_delivery(self, delivery):
        if delivery.aborted:
            self.aborted += 1
            self.buffers.pop(delivery.tag, None)
            delivery.settle()
            self.link.flow(1)  # it took a credit all the same
            return
        if not delivery.readable:
            return
        data = self.link.recv(delivery.pending) or b""
        if delivery.partial:
            self.buffers[delivery.tag] = self.buffers.get(delivery.tag, b"") + data
            return
        data = self.buffers.pop(delivery.tag, b"") + data
        self.messages.append(data if self.keep else len(data))
        self.link.advance()
        if delivery.settled:
            delivery.settle()
        elif self.answer:
            delivery.update(self.answer)
            delivery.settle()
        else:
            self.unsettled.append(delivery)

    def bodies(self):
        return [body(data) for data in self.messages]

    def attached(self):
        return bool(self.link.state & Endpoint.REMOTE_ACTIVE)

    def on_close(self, link):
        self.detached = True
        if link.remote_condition:
            self.error = link.remote_condition.name

    def close(self):
        self.link.close()


def body(data):
    """The body of an encoded message."""
    message = Message()
    message.decode(data)
    return message.body


def query(peer, entity_type, attributes):
    """The rows of a management query, as dicts."""
    replies = peer.receiver(None, credit=10, dynamic=True)
    requests = peer.sender("$management")
    requests.wait_credit()
    peer.wait(replies.attached, what="reply address")
    rows = []
    while True:
        requests.send(Message(
            reply_to=replies.address, correlation_id="q", body={"attributeNames": attributes},
            properties={"operation": "QUERY", "type": "org.amqp.management", "name": "self",
                        "entityType": "org.apache.qpid.dispatch." + entity_type, "offset": len(rows), "count": 500}))
        n = len(replies.messages) + 1
        peer.wait(lambda: len(replies.messages) == n, what="answer to a query")
        replies.link.flow(1)
        reply = Message()
        reply.decode(replies.messages[-1])
        if reply.properties["statusCode"] != 200:
            raise Exception(reply.properties)
        results = reply.body["results"]
        rows += [dict(zip(reply.body["attributeNames"], row)) for row in results]
        if len(results) < 500:
            break
    requests.close()
    replies.close()
    return rows
