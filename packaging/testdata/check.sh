# Runs in the machine of TestService: uses the service, and leaves the results in /results.
cd /results
systemctl start sandpiper >started 2>&1 || exit
for _ in $(seq 100); do
	curl --silent --fail http://127.0.0.1:8765/readyz >ready && break
	sleep 0.1
done
curl --silent http://127.0.0.1:8765/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
	-H 'Mcp-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: execute_code' \
	-d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"6*7"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}' >execution
systemctl reload sandpiper && systemctl is-active sandpiper >reloaded
systemctl start doctor
# Longer than WatchdogSec: the service is alive only if it tells so.
sleep 3
systemctl show sandpiper --property=ActiveState,SubState,NRestarts >alive
systemctl stop sandpiper
systemctl show sandpiper --property=ActiveState,Result >stopped
stat --format='%U %a %n' /var/lib/sandpiper /var/lib/sandpiper/key /var/cache/sandpiper >files
journalctl --unit sandpiper --unit doctor --no-pager >journal
