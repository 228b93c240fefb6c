"""A stand-in for the command `vllm`: its arguments, its routes, and ways to fail that FAKE_VLLM names."""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = os.environ.get("FAKE_VLLM", "")
PORT = int(sys.argv[sys.argv.index("--port") + 1])
NAME = sys.argv[sys.argv.index("--served-model-name") + 1] if "--served-model-name" in sys.argv else sys.argv[2]
ADAPTERS = {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(503 if MODE == "sick" and ADAPTERS else 200, {})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/load_lora_adapter":
            ADAPTERS[asked["lora_name"]] = asked["lora_path"]
            self.answer(200, {})
        elif self.path == "/v1/chat/completions":
            self.answer(400 if MODE == "no_template" else 200, {"error": {"message": "no chat template is defined"}})
        elif MODE == "dies_at_first_request":
            os._exit(7)
        else:
            odds = -1.0 if asked["model"] == NAME or MODE == "weak" else -2.5
            self.answer(200, {"choices": [{"prompt_logprobs": [None, {"1": {"logprob": odds}}]}]})

    def answer(self, status, data):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


print("starting", *sys.argv[1:], flush=True)
print("updating", os.environ.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING"), flush=True)
if MODE == "dies":
    print("ValueError: the weights are broken\nRuntimeError: Engine died. See root cause above.", flush=True)
    sys.exit(1)
if MODE == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
# A worker that was given a group of its own must go, too.
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print("worker", worker.pid, flush=True)
if MODE == "hangs":
    time.sleep(600)
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
