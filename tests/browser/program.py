"""A program that people open in a browser: a page, a cookie, and a WebSocket that says what it hears.

Listens on 127.0.0.1 at a port of the kernel's choice. Standard library alone.
"""
import base64
import hashlib
import http.server
import json
import struct
import threading

PAGE = b"""<!doctype html><title>program</title><p id=heard>nothing yet</p><script>
const socket = new WebSocket(`ws://${location.host}/echo`);
socket.onopen = () => socket.send("over the socket");
socket.onmessage = (e) => { document.getElementById("heard").textContent = e.data; };
</script>"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, kind, body, more=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in more:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/echo":
            return self.echo()
        if self.path == "/away":
            own = f"http://{self.headers['Host']}/headers"
            return self.answer(302, "text/plain", b"", [("Location", own)])
        if self.path == "/headers":
            heard = json.dumps(dict(self.headers)).encode()
            return self.answer(200, "application/json", heard)
        self.answer(200, "text/html", PAGE, [("Set-Cookie", "mine=1; Domain=.localhost; Path=/")])

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, "text/plain", b"heard " + body)

    def echo(self):
        """One frame of text and back. Source: RFC 6455, 4.2.2 and 5.2."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        _, length = self.rfile.read(2)
        mask = self.rfile.read(4)
        text = bytes(b ^ mask[n % 4] for n, b in enumerate(self.rfile.read(length & 127)))
        self.wfile.write(struct.pack("BB", 0x81, len(text)) + text)
        self.wfile.flush()
        threading.Event().wait(5)
        self.close_connection = True


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
