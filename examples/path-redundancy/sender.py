#!/usr/bin/python3
"""Sends messages until each is accepted: sender.py [URL [COUNT]]

A router holds no messages: one that finds no way, or whose way breaks, comes
back as released or modified. This sender then sends it again. Needs Debian's
package python3-qpid-proton.
"""

import collections
import sys

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

PAUSE = 0.2  # seconds until a message that came back is sent again


class Sender(MessagingHandler):
    def __init__(self, url, count):
        super().__init__()
        self.url = url
        self.waiting = collections.deque(range(1, count + 1))
        self.under_way = {}
        self.left = count
        self.sender = None

    def on_start(self, event):
        self.sender = event.container.create_sender(self.url)

    def on_sendable(self, event):
        self.send()

    def send(self):
        while self.waiting and self.sender.credit:
            n = self.waiting.popleft()
            delivery = self.sender.send(Message(body="message %d" % n))
            self.under_way[delivery.tag] = n

    def on_settled(self, event):
        delivery = event.delivery
        n = self.under_way.pop(delivery.tag)
        outcome = str(delivery.remote_state).lower()
        print("message", n, "was", outcome)
        if outcome != "accepted":
            self.waiting.append(n)
            event.container.schedule(PAUSE, self)
            return
        self.left -= 1
        if self.left == 0:
            event.connection.close()

    def on_timer_task(self, event):
        self.send()


url, count = (sys.argv[1:] + ["amqp://127.0.0.1:6000/my_address", "10"][len(sys.argv) - 1:])[:2]
try:
    Container(Sender(url, int(count))).run()
except KeyboardInterrupt:
    pass
