PRAGMA application_id = 1129075781;
PRAGMA user_version = 7;
BEGIN TRANSACTION;
CREATE TABLE archive (
    workflow_id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, ended_at INTEGER NOT NULL,
    archived_at INTEGER NOT NULL, size INTEGER NOT NULL, document BLOB NOT NULL
) STRICT;
CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "counters" VALUES('registry',2);
CREATE TABLE definitions (digest TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL) STRICT;
INSERT INTO "definitions" VALUES('c0d04161fdd41c50524ecdaaa3d8e18809503a0daa0e94b27d2e816e4f825be7','{"name":"unpolled","version":1,"tasks":[{"name":"work_unpolled","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_unpolled","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":10}}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('2d1045615ecee0d67b3d48489b8e6b51f0fa8216e972fc87cfc7916f5201e79f','{"name":"timed_out","version":1,"tasks":[{"name":"h","taskReferenceName":"h","type":"HUMAN"}],"schemaVersion":2,"timeoutPolicy":"TIME_OUT_WF","timeoutSeconds":20}');
INSERT INTO "definitions" VALUES('280ece8d50fd6e8069a4a1f080640e3b8594645d237b8d9ffc28653d50db3971','{"name":"polled","version":1,"tasks":[{"name":"work_polled","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_polled","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_polled","taskReferenceName":"b","type":"SIMPLE","inputParameters":{"x":"${a.output.by}"},"taskDefinition":{"name":"work_polled","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],"schemaVersion":2,"timeoutSeconds":20000}');
INSERT INTO "definitions" VALUES('5420e6f5a735a2c927047e006bc04536bacd9b40cc81f293ed15f681e48844ac','{"name":"offered","version":1,"tasks":[{"name":"far","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"far","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('135f80005d7cf1dc1e38bf93748085efaef322c783e3f21176f8aa68b4ef3a79','{"name":"tried","version":1,"tasks":[{"name":"work_tried","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_tried","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_tried","taskReferenceName":"b","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('96ffaf084768fd01b23b407793089b659c4cba45f527004ce9d71e9bad1a224f','{"name":"called","version":1,"tasks":[{"name":"call","taskReferenceName":"call","type":"HTTP","inputParameters":{"http_request":{"uri":"http://nowhere.example/","method":"GET"}}},{"name":"told","taskReferenceName":"told","type":"EVENT","inputParameters":{"what":"${call.output}"},"sink":"conductor:news"},{"name":"sent","taskReferenceName":"sent","type":"KAFKA_PUBLISH","inputParameters":{"kafka_request":{"topic":"t","value":"v","bootStrapServers":"h:1"}}}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('a7eeea45d7c538a2d68000e2f2e6f11f1e242ebd7cc65c91a947d38a71f4c50d','{"name":"later","version":1,"tasks":[{"name":"work_later","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_later","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_later","taskReferenceName":"asked","type":"SIMPLE","asyncComplete":true}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('cb44193d5861a875d877b029fa62dbcc70d680f66f3ed2eafae230935311e3cf','{"name":"paused","version":1,"tasks":[{"name":"work_paused","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_paused","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"nap","taskReferenceName":"nap","type":"WAIT","inputParameters":{"duration":"10 minutes"}},{"name":"work_paused","taskReferenceName":"b","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('30919a428b5bf03a3162d63fa6252a9f20535934def32691316e1cf77ec24c67','{"name":"parked","version":1,"tasks":[{"name":"work_parked","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_parked","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_parked","taskReferenceName":"b","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('5d830d85616f6aacd3911f455b19fd3678d86518774546b8e1736d6fa7755ddc','{"name":"forked","version":1,"tasks":[{"name":"fork","taskReferenceName":"fork","type":"FORK_JOIN","forkTasks":[[{"name":"work_forked","taskReferenceName":"left","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_forked","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],[{"name":"wait","taskReferenceName":"wait","type":"WAIT","inputParameters":{"duration":"30 minutes"}}],[{"name":"work_forked","taskReferenceName":"right","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_forked","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}]]},{"name":"join","taskReferenceName":"join","type":"JOIN","joinOn":["left","wait","right"]},{"name":"work_forked","taskReferenceName":"b","type":"SIMPLE","inputParameters":{"all":"${join.output}"}}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('2285c4a7b0bfa687e9185f5ab2daa3ce41f6371c9d7ab7f63d9cf5b6a52f3056','{"name":"chosen","version":1,"tasks":[{"name":"way","taskReferenceName":"way","type":"SWITCH","inputParameters":{"c":"${workflow.input.case}"},"evaluatorType":"value-param","expression":"c","decisionCases":{"x":[{"name":"work_chosen","taskReferenceName":"one","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_chosen","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}]}},{"name":"either","taskReferenceName":"either","type":"EXCLUSIVE_JOIN","joinOn":["one"]},{"name":"old","taskReferenceName":"old","type":"DECISION","inputParameters":{"c":"${workflow.input.case}"},"caseValueParam":"c","decisionCases":{"x":[{"name":"work_chosen","taskReferenceName":"two","type":"SIMPLE"}]}},{"name":"end","taskReferenceName":"end","type":"NOOP"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('1ccc0f9f2cbfe173ee83c0c8437eaa07f6065a0d90407465891c21bd7a5c86e9','{"name":"looping","version":1,"tasks":[{"name":"loop","taskReferenceName":"loop","type":"DO_WHILE","inputParameters":{"keepLastN":2},"loopOver":[{"name":"work_looping","taskReferenceName":"turn","type":"SIMPLE","inputParameters":{"x":"${loop.output.iteration}"},"taskDefinition":{"name":"work_looping","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"count","taskReferenceName":"count","type":"SET_VARIABLE","inputParameters":{"n":"${turn.output.by}"}}],"loopCondition":"$.loop[''iteration''] < 3"},{"name":"work_looping","taskReferenceName":"b","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('3689f758273b34c013fb2201e64efb8a17dae22cedb24e96710cc9a26a29b4d4','{"name":"spread","version":1,"tasks":[{"name":"spread","taskReferenceName":"spread","type":"FORK_JOIN_DYNAMIC","inputParameters":{"t":"${workflow.input.branches}","i":{}},"dynamicForkTasksParam":"t","dynamicForkTasksInputParamName":"i"},{"name":"gather","taskReferenceName":"gather","type":"JOIN"},{"name":"stand_in","taskReferenceName":"stand_in","type":"DYNAMIC","inputParameters":{"who":"work_spread","x":"${gather.output}"},"dynamicTaskNameParam":"who"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('407e7a39aa7aa72a49ecad3a41fe02b3971814134e168cf97596858915a5a6af','{"name":"spread","version":1,"tasks":[{"name":"spread","taskReferenceName":"spread","type":"FORK_JOIN","forkTasks":[[{"name":"work_spread","taskReferenceName":"p","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],[{"name":"work_spread","taskReferenceName":"q","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],[{"name":"r","taskReferenceName":"r","type":"NOOP"}]]},{"name":"gather","taskReferenceName":"gather","type":"JOIN","joinOn":["p","q","r"]}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('61d0a9956fb62b887c91d477e59362245ff3a92e7fcddf35828a4c8ca03b0bc6','{"name":"inner","version":1,"tasks":[{"name":"work_family","taskReferenceName":"c1","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_family","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"gate","taskReferenceName":"gate","type":"HUMAN"},{"name":"work_family","taskReferenceName":"c2","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('bde5f9d31d035d9c81ed48c0637b01b3b162359a3040a38d6b104ca53fe02766','{"name":"family","version":1,"tasks":[{"name":"child","taskReferenceName":"child","type":"SUB_WORKFLOW","subWorkflowParam":{"name":"inner","version":1,"workflowDefinition":{"name":"inner","version":1,"tasks":[{"name":"work_family","taskReferenceName":"c1","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_family","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"gate","taskReferenceName":"gate","type":"HUMAN"},{"name":"work_family","taskReferenceName":"c2","type":"SIMPLE"}],"schemaVersion":2},"conductorlite:definitionHash":"61d0a9956fb62b887c91d477e59362245ff3a92e7fcddf35828a4c8ca03b0bc6"}},{"name":"other","taskReferenceName":"other","type":"START_WORKFLOW","inputParameters":{"startWorkflow":{"name":"mourn","input":{"why":"${child.status}"}}}}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('21a9e2f18ca97a1b7915ceada00b9276210c767bb01650061044419deef73f05','{"name":"scripts","version":1,"tasks":[{"name":"inline","taskReferenceName":"inline","type":"INLINE","inputParameters":{"evaluatorType":"javascript","expression":"$.x + 1","x":1}},{"name":"lambda","taskReferenceName":"lambda","type":"LAMBDA","inputParameters":{"scriptExpression":"return $.x","x":"${inline.output.result}"}},{"name":"jq","taskReferenceName":"jq","type":"JSON_JQ_TRANSFORM","inputParameters":{"queryExpression":".x | length","x":[1,2,3]}},{"name":"gate","taskReferenceName":"gate","type":"HUMAN"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('f44357b617ae05e51bf2dd8f8dd04120cb31e397b4646c859338796f95b54838','{"name":"undoing","version":1,"tasks":[{"name":"work_undoing","taskReferenceName":"book","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_undoing","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200},"compensate":{"name":"work_undoing","taskReferenceName":"unbook","type":"SIMPLE","inputParameters":{"x":"${book.output.by}"},"taskDefinition":{"name":"work_undoing","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}},{"name":"work_undoing","taskReferenceName":"pay","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_undoing","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200},"compensate":{"name":"refund","taskReferenceName":"refund","type":"SET_VARIABLE","inputParameters":{"refunded":"${pay.output.by}"}}},{"name":"stop","taskReferenceName":"stop","type":"TERMINATE","inputParameters":{"terminationStatus":"FAILED","terminationReason":"no stock"}}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('12e5bde3d11fd60a30bacbec300a5fd14992680d9b6a823ca556d0167ef086a7','{"name":"moved","version":1,"tasks":[{"name":"work_moved","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_moved","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_moved","taskReferenceName":"b","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('ec6848b67727aaaa64472e07c306010782b00590f8622d409502b5bb13178de8','{"name":"moved","version":2,"tasks":[{"name":"work_moved","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_moved","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_moved","taskReferenceName":"b","type":"SIMPLE"},{"name":"work","taskReferenceName":"c","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('7f2cf4efdc7d640d08b34a9cd7101aef15cdc476e9c457838447822816ba00ba','{"name":"again","version":1,"tasks":[{"name":"work_again","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_again","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_again","taskReferenceName":"b","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_again","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_again","taskReferenceName":"c","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('fb4bf5bddea9b2a1268c297e28c8907aacef2617af6742a679235b4cb047b4d8','{"name":"jumped","version":1,"tasks":[{"name":"work_jumped","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_jumped","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_jumped","taskReferenceName":"s","type":"SIMPLE"},{"name":"work_jumped","taskReferenceName":"z","type":"SIMPLE"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('a2520416e51da85e3ee98c0006a715a546a9d35cc784c04c4b5c2635a81c6a63','{"name":"completed","version":1,"tasks":[{"name":"work_completed","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_completed","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],"outputParameters":{"by":"${a.output.by}"},"schemaVersion":2}');
INSERT INTO "definitions" VALUES('5bcb2c01a3e56f319796bc4e6a701d919970e739602e41430b828840b080a233','{"name":"failed","version":1,"tasks":[{"name":"work_failed","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_failed","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_failed","taskReferenceName":"b","type":"SIMPLE"}],"failureWorkflow":"mourn","schemaVersion":2}');
INSERT INTO "definitions" VALUES('ef624c18009c242965be095fded3d5fc9e0c8db0790b964c2ae42bdc42d02b2c','{"name":"mourn","version":1,"tasks":[{"name":"work","taskReferenceName":"m","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],"outputParameters":{"why":"${workflow.input.reason}"},"schemaVersion":2}');
INSERT INTO "definitions" VALUES('a907634d3209bdecc67586eccdb355f3e8f2427ea7652370cf519013ba67ad3c','{"name":"terminated","version":1,"tasks":[{"name":"fork","taskReferenceName":"fork","type":"FORK_JOIN","forkTasks":[[{"name":"work_terminated","taskReferenceName":"left","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_terminated","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],[{"name":"wait","taskReferenceName":"wait","type":"WAIT","inputParameters":{"duration":"30 minutes"}}],[{"name":"work_terminated","taskReferenceName":"right","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_terminated","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}]]},{"name":"join","taskReferenceName":"join","type":"JOIN","joinOn":["left","wait","right"]}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('8d551c85058a158e034dbb341fdf7c899c142448ba52f66419258f5d409a49b5','{"name":"optional","version":1,"tasks":[{"name":"work_optional","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"optional":true,"taskDefinition":{"name":"work_optional","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"gate","taskReferenceName":"gate","type":"HUMAN"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('911be42842dce96b5056b14d851f02bf3864165b04604c832748247ca9119ef7','{"name":"keyed","version":1,"tasks":[{"name":"k","taskReferenceName":"k","type":"HUMAN"}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('9a43b3a3f22e84cab6c55d622ba05cf25263e4ec6cec51a6447825a1f2c4201f','{"name":"slot","version":1,"tasks":[{"name":"narrow","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"narrow","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200,"concurrentExecLimit":1}}],"schemaVersion":2}');
INSERT INTO "definitions" VALUES('daa842bc43c88b2bac0acd926c505f541598a94c4d7601d83243b40df360e494','{"name":"gates","version":1,"tasks":[{"name":"gate","taskReferenceName":"gate","type":"HUMAN"}],"schemaVersion":2,"rateLimitConfig":{"rateLimitKey":"gates","concurrentExecLimit":1}}');
CREATE TABLE driven (
    owner TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (owner, since)
) STRICT, WITHOUT ROWID;
INSERT INTO "driven" VALUES('',1900000000000,1900000060000);
CREATE TABLE event_executions (
    name TEXT NOT NULL, event TEXT NOT NULL, message_id TEXT NOT NULL, number INTEGER NOT NULL, created INTEGER NOT NULL,
    status TEXT NOT NULL, action TEXT, output TEXT NOT NULL,
    PRIMARY KEY (name, event, message_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE event_handlers (
    name TEXT PRIMARY KEY NOT NULL, event TEXT NOT NULL, active INTEGER NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE TABLE external_payloads (
    workflow_id TEXT NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (workflow_id, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE feeds (
    n INTEGER PRIMARY KEY, reader TEXT NOT NULL, position INTEGER NOT NULL, complete INTEGER NOT NULL
) STRICT;
CREATE TABLE history (place INTEGER PRIMARY KEY, at INTEGER NOT NULL, lines TEXT NOT NULL) STRICT;
INSERT INTO "history" VALUES(268435457,1900000000000,'r{"x":14}c0d04161fdd41c50524ecdaaa3d8e18809503a0daa0e94b27d2e816e4f825be7"}Sa{"x":14}');
INSERT INTO "history" VALUES(268435459,1900000010000,'TASK TIMED_OUTa{}Task poll timed out after 10 seconds. Poll timeout configured as 10 seconds. Timeout policy configured to TIME_OUT_WFWORKFLOW TIMED_OUT{}Task poll timed out after 10 seconds. Poll timeout configured as 10 seconds. Timeout policy configured to TIME_OUT_WF');
INSERT INTO "history" VALUES(536870913,1900000000000,'r{}2d1045615ecee0d67b3d48489b8e6b51f0fa8216e972fc87cfc7916f5201e79f"}Ih{}');
INSERT INTO "history" VALUES(536870915,1900000020000,'TASK CANCELEDh{}WORKFLOW TIMED_OUT{}Workflow timed out after 20 seconds. Timeout configured as 20 seconds. Timeout policy configured to TIME_OUT_WF');
INSERT INTO "history" VALUES(805306369,1900000021000,'r#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a280ece8d50fd6e8069a4a1f080640e3b8594645d237b8d9ffc28653d50db3971"}Sa#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a');
INSERT INTO "history" VALUES(805306371,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(1073741825,1900000021000,'r{"x":1}5420e6f5a735a2c927047e006bc04536bacd9b40cc81f293ed15f681e48844ac"}Sa{"x":1}');
INSERT INTO "history" VALUES(1342177281,1900000021000,'r{"x":1}135f80005d7cf1dc1e38bf93748085efaef322c783e3f21176f8aa68b4ef3a79"}Sa{"x":1}');
INSERT INTO "history" VALUES(1342177283,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(1342177284,1900000021000,'TASK FAILEDa{}{"kind":"REPORT","worker":"golden"}503Sa1{"x":1}');
INSERT INTO "history" VALUES(1610612737,1900000021000,'r{}96ffaf084768fd01b23b407793089b659c4cba45f527004ce9d71e9bad1a224f"}Scall{"http_request":{"uri":"http://nowhere.example/","method":"GET"},"asyncComplete":false}');
INSERT INTO "history" VALUES(1879048193,1900000021000,'r{"x":2}a7eeea45d7c538a2d68000e2f2e6f11f1e242ebd7cc65c91a947d38a71f4c50d"}Sa{"x":2}');
INSERT INTO "history" VALUES(1879048195,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(1879048196,1900000021000,'Ca{"by":"a","got":{"x":2}}{"kind":"REPORT","worker":"golden"}Sasked{}');
INSERT INTO "history" VALUES(1879048198,1900000021000,'Iaskedgolden"}');
INSERT INTO "history" VALUES(1879048199,1900000021000,'Sasked{"kind":"REPORT","worker":"golden","callback":3600000}');
INSERT INTO "history" VALUES(2147483649,1900000021000,'r{"x":3}cb44193d5861a875d877b029fa62dbcc70d680f66f3ed2eafae230935311e3cf"}Sa{"x":3}');
INSERT INTO "history" VALUES(2147483651,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(2147483652,1900000021000,'WORKFLOW PAUSED{"kind":"PAUSE"}');
INSERT INTO "history" VALUES(2147483653,1900000021000,'Ca{"by":"a","got":{"x":3}}{"kind":"REPORT","worker":"golden"}');
INSERT INTO "history" VALUES(2415919105,1900000021000,'r{"x":4}30919a428b5bf03a3162d63fa6252a9f20535934def32691316e1cf77ec24c67"}Sa{"x":4}');
INSERT INTO "history" VALUES(2415919107,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(2684354561,1900000021000,'r{"x":5}5d830d85616f6aacd3911f455b19fd3678d86518774546b8e1736d6fa7755ddc"}Cfork{}Ijoin{"joinOn":["left","wait","right"]}Sleft{"x":5}Iwait{"duration":"30 minutes"}Sright{"x":5}');
INSERT INTO "history" VALUES(2684354567,1900000021000,'Ileftgolden"}');
INSERT INTO "history" VALUES(2684354568,1900000021000,'Cleft{"by":"left","got":{"x":5}}{"kind":"REPORT","worker":"golden"}');
INSERT INTO "history" VALUES(2952790017,1900000021000,'r{"x":6,"case":"x"}2285c4a7b0bfa687e9185f5ab2daa3ce41f6371c9d7ab7f63d9cf5b6a52f3056"}Cway{"evaluationResult":["x"],"selectedCase":"x"}Sone{"x":6}');
INSERT INTO "history" VALUES(2952790020,1900000021000,'Ionegolden"}');
INSERT INTO "history" VALUES(2952790021,1900000021000,'Cone{"by":"one","got":{"x":6}}{"kind":"REPORT","worker":"golden"}Ieither{"joinOn":["one"],"defaultExclusiveJoinTask":[]}Ceither{"by":"one","got":{"x":6}}Cold{"caseOutput":["x"]}Stwo{}');
INSERT INTO "history" VALUES(3221225473,1900000021000,'r{}1ccc0f9f2cbfe173ee83c0c8437eaa07f6065a0d90407465891c21bd7a5c86e9"}Iloop{"keepLastN":2}ROUND IN_PROGRESSloop1Sturn__1{"x":1}');
INSERT INTO "history" VALUES(3221225477,1900000021000,'Iturn__1golden"}');
INSERT INTO "history" VALUES(3221225478,1900000021000,'Cturn__1{"by":"turn__1","got":{"x":1}}{"kind":"REPORT","worker":"golden"}Ccount__1{}ROUND IN_PROGRESSloop2Sturn__2{"x":2}');
INSERT INTO "history" VALUES(3221225482,1900000021000,'Iturn__2golden"}');
INSERT INTO "history" VALUES(3489660929,1900000021000,'r{"branches":[{"name":"work_spread","taskReferenceName":"p","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"pollTimeoutSeconds":7200,"timeoutSeconds":7200,"responseTimeoutSeconds":900,"totalTimeoutSeconds":14400}},{"name":"work_spread","taskReferenceName":"q","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"pollTimeoutSeconds":7200,"timeoutSeconds":7200,"responseTimeoutSeconds":900,"totalTimeoutSeconds":14400}},{"name":"r","taskReferenceName":"r","type":"NOOP"}]}3689f758273b34c013fb2201e64efb8a17dae22cedb24e96710cc9a26a29b4d4","used":["407e7a39aa7aa72a49ecad3a41fe02b3971814134e168cf97596858915a5a6af"]}Cspread{}Igather{"joinOn":["p","q","r"]}Sp{"x":null}Sq{"x":null}Cr{}');
INSERT INTO "history" VALUES(3489660935,1900000021000,'Ipgolden"}');
INSERT INTO "history" VALUES(3489660936,1900000021000,'Cp{"by":"p","got":{"x":null}}{"kind":"REPORT","worker":"golden"}');
INSERT INTO "history" VALUES(3489660937,1900000021000,'Iqgolden"}');
INSERT INTO "history" VALUES(3758096385,1900000021000,'r{}bde5f9d31d035d9c81ed48c0637b01b3b162359a3040a38d6b104ca53fe02766"}Ichild{"subWorkflowName":"inner","subWorkflowVersion":1,"subWorkflowTaskToDomain":{},"priority":0,"workflowInput":{},"conductorlite:definitionHash":"61d0a9956fb62b887c91d477e59362245ff3a92e7fcddf35828a4c8ca03b0bc6"}');
INSERT INTO "history" VALUES(4026531841,1900000021000,'r{}{"kind":"START","from":"family","id":"START","definition":"61d0a9956fb62b887c91d477e59362245ff3a92e7fcddf35828a4c8ca03b0bc6"}Sc1{"x":null}');
INSERT INTO "history" VALUES(4026531843,1900000021000,'Ic1golden"}');
INSERT INTO "history" VALUES(4026531844,1900000021000,'Cc1{"by":"c1","got":{"x":null}}{"kind":"REPORT","worker":"golden"}Igate{}');
INSERT INTO "history" VALUES(4294967297,1900000021000,'r{}21a9e2f18ca97a1b7915ceada00b9276210c767bb01650061044419deef73f05"}Cinline{"result":2}Clambda{"result":2}Cjq{"result":3,"resultList":[3]}Igate{}');
INSERT INTO "history" VALUES(4563402753,1900000021000,'r{"x":7}f44357b617ae05e51bf2dd8f8dd04120cb31e397b4646c859338796f95b54838"}Sbook{"x":7}');
INSERT INTO "history" VALUES(4563402755,1900000021000,'Ibookgolden"}');
INSERT INTO "history" VALUES(4563402756,1900000021000,'Cbook{"by":"book","got":{"x":7}}{"kind":"REPORT","worker":"golden"}Spay{"x":7}');
INSERT INTO "history" VALUES(4563402758,1900000021000,'Ipaygolden"}');
INSERT INTO "history" VALUES(4563402759,1900000021000,'Cpay{"by":"pay","got":{"x":7}}{"kind":"REPORT","worker":"golden"}Cstop{}COMPENSATION FAILEDno stockCOMPENSATION COMPENSATINGpayby ''refund''Crefund{}COMPENSATION COMPENSATINGbookby ''unbook''Sunbook{"x":"book"}');
INSERT INTO "history" VALUES(4563402766,1900000021000,'Iunbookgolden"}');
INSERT INTO "history" VALUES(4831838209,1900000021000,'r{"x":8}12e5bde3d11fd60a30bacbec300a5fd14992680d9b6a823ca556d0167ef086a7"}Sa{"x":8}');
INSERT INTO "history" VALUES(4831838211,1900000021000,'MIGRATED MIGRATED{"from":{"version":1,"definitionHash":"12e5bde3d11fd60a30bacbec300a5fd14992680d9b6a823ca556d0167ef086a7"},"to":{"version":2,"definitionHash":"ec6848b67727aaaa64472e07c306010782b00590f8622d409502b5bb13178de8"},"renamed":{}}{"kind":"MIGRATE"}');
INSERT INTO "history" VALUES(5100273665,1900000021000,'r{"x":9}7f2cf4efdc7d640d08b34a9cd7101aef15cdc476e9c457838447822816ba00ba"}Sa{"x":9}');
INSERT INTO "history" VALUES(5100273667,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(5100273668,1900000021000,'Ca{"by":"a","got":{"x":9}}{"kind":"REPORT","worker":"golden"}Sb{"x":9}');
INSERT INTO "history" VALUES(5100273670,1900000021000,'Ibgolden"}');
INSERT INTO "history" VALUES(5100273671,1900000021000,'Cb{"by":"b","got":{"x":9}}{"kind":"REPORT","worker":"golden"}Sc{}');
INSERT INTO "history" VALUES(5100273673,1900000021000,'TASK CANCELEDc{}{"kind":"RERUN"}VERB RERUNb-{"dropped":["b","c"]}Sb{"x":9}');
INSERT INTO "history" VALUES(5368709121,1900000021000,'r{"x":10}fb4bf5bddea9b2a1268c297e28c8907aacef2617af6742a679235b4cb047b4d8"}Sa{"x":10}');
INSERT INTO "history" VALUES(5368709123,1900000021000,'VERB SKIPs-{"ref":"s","input":{},"output":{"skipped":true}}{"kind":"SKIP"}TASK SKIPPEDs{"skipped":true}');
INSERT INTO "history" VALUES(5368709125,1900000021000,'VERB VARIABLES{"by":"hand"}{"kind":"VARIABLES"}');
INSERT INTO "history" VALUES(5637144577,1900000021000,'r#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889aa2520416e51da85e3ee98c0006a715a546a9d35cc784c04c4b5c2635a81c6a63"}Sa#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a');
INSERT INTO "history" VALUES(5637144579,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(5637144580,1900000021000,'Ca#3809b14cc473470b11150d2bdf0190f7b50b20c8e82bfacac422b83edeff0c78{"kind":"REPORT","worker":"golden"}c{"by":"a"}');
INSERT INTO "history" VALUES(5905580033,1900000021000,'r{"x":11}5bcb2c01a3e56f319796bc4e6a701d919970e739602e41430b828840b080a233"}Sa{"x":11}');
INSERT INTO "history" VALUES(5905580035,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(5905580036,1900000021000,'TASK FAILED_WITH_TERMINAL_ERRORa{}{"kind":"REPORT","worker":"golden","used":["ef624c18009c242965be095fded3d5fc9e0c8db0790b964c2ae42bdc42d02b2c"]}nobody at homeWORKFLOW FAILED{"conductor.failure_workflow":"5622c92201838b96aacb37af9c0542eb"}Task a0c85d92cdba9def86f00d80440510bf failed with status: FAILED_WITH_TERMINAL_ERROR and reason: ''nobody at home''');
INSERT INTO "history" VALUES(6174015489,1900000021000,'r#a4999eaaf3fa8c7859066f8541fb06fa1fd02ceea842cda188ccdd733edbe3d1{"kind":"START","from":"failed","id":"START","definition":"ef624c18009c242965be095fded3d5fc9e0c8db0790b964c2ae42bdc42d02b2c"}Sm{"x":11}');
INSERT INTO "history" VALUES(6442450945,1900000021000,'r{"x":12}a907634d3209bdecc67586eccdb355f3e8f2427ea7652370cf519013ba67ad3c"}Cfork{}Ijoin{"joinOn":["left","wait","right"]}Sleft{"x":12}Iwait{"duration":"30 minutes"}Sright{"x":12}');
INSERT INTO "history" VALUES(6442450951,1900000021000,'Ileftgolden"}');
INSERT INTO "history" VALUES(6442450952,1900000021000,'TASK CANCELEDleft{}{"kind":"TERMINATE","reason":"enough"}TASK CANCELEDwait{}TASK CANCELEDright{}TASK CANCELEDjoin{}WORKFLOW TERMINATED{}enough');
INSERT INTO "history" VALUES(6710886401,1900000021000,'r{"x":13}8d551c85058a158e034dbb341fdf7c899c142448ba52f66419258f5d409a49b5"}Sa{"x":13}');
INSERT INTO "history" VALUES(6710886403,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(6710886404,1900000021000,'TASK FAILED_WITH_TERMINAL_ERRORa{}{"kind":"REPORT","worker":"golden"}nobody at homeTASK COMPLETED_WITH_ERRORSa{}nobody at homeIgate{}');
INSERT INTO "history" VALUES(6979321857,1900000021000,'r{}911be42842dce96b5056b14d851f02bf3864165b04604c832748247ca9119ef7","correlationId":"customer 1"}Ik{}');
INSERT INTO "history" VALUES(7247757313,1900000021000,'r{}911be42842dce96b5056b14d851f02bf3864165b04604c832748247ca9119ef7","at":1900002721000}');
INSERT INTO "history" VALUES(7516192769,1900000021000,'r{"x":1}9a43b3a3f22e84cab6c55d622ba05cf25263e4ec6cec51a6447825a1f2c4201f","slots":[["ask a",1]]}Sa{"x":1}');
INSERT INTO "history" VALUES(7516192771,1900000021000,'Iagolden"}');
INSERT INTO "history" VALUES(7784628225,1900000021000,'r{}daa842bc43c88b2bac0acd926c505f541598a94c4d7601d83243b40df360e494","slots":[["ask ",1]]}Igate{}');
INSERT INTO "history" VALUES(8053063681,1900000021000,'r{"x":2}9a43b3a3f22e84cab6c55d622ba05cf25263e4ec6cec51a6447825a1f2c4201f"}TASK PENDINGa{"x":2}');
INSERT INTO "history" VALUES(8321499137,1900000021000,'r{}daa842bc43c88b2bac0acd926c505f541598a94c4d7601d83243b40df360e494"}TASK PENDINGgate{}');
INSERT INTO "history" VALUES(8589934593,1900000021000,'r{"x":3}9a43b3a3f22e84cab6c55d622ba05cf25263e4ec6cec51a6447825a1f2c4201f"}TASK PENDINGa{"x":3}');
INSERT INTO "history" VALUES(8858370049,1900000021000,'r{}daa842bc43c88b2bac0acd926c505f541598a94c4d7601d83243b40df360e494"}TASK PENDINGgate{}');
CREATE TABLE holders (
    holder TEXT PRIMARY KEY NOT NULL, place TEXT NOT NULL, lease_until INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency_keys (
    name TEXT NOT NULL, key TEXT NOT NULL, workflow_id TEXT NOT NULL, PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "idempotency_keys" VALUES('keyed','order 7','keyed');
CREATE TABLE inbox (
    workflow_id TEXT NOT NULL, event_id TEXT NOT NULL, kind TEXT NOT NULL, due_at INTEGER NOT NULL, posted_at INTEGER NOT NULL,
    sender TEXT, sender_seq INTEGER NOT NULL, ref TEXT, attempt INTEGER NOT NULL, generation INTEGER NOT NULL,
    data TEXT NOT NULL, held INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (workflow_id, event_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "inbox" VALUES('5622c92201838b96aacb37af9c0542eb','POLL_TIMEOUT:m','POLL_TIMEOUT',1900007221000,1900000021000,NULL,2,'m',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('5622c92201838b96aacb37af9c0542eb','TOTAL_TIMEOUT:m','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'m',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('again','POLL_TIMEOUT:b','POLL_TIMEOUT',1900007221000,1900000021000,NULL,13,'b',0,1,'{}',0,'');
INSERT INTO "inbox" VALUES('again','TOTAL_TIMEOUT:b','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,12,'b',0,1,'{}',0,'');
INSERT INTO "inbox" VALUES('called','POLL_TIMEOUT:call','POLL_TIMEOUT',1900003621000,1900000021000,NULL,1,'call',0,0,'{"since":1900000021000,"span":3600000}',0,'');
INSERT INTO "inbox" VALUES('chosen','POLL_TIMEOUT:two','POLL_TIMEOUT',1900003621000,1900000021000,NULL,6,'two',0,0,'{"since":1900000021000,"span":3600000}',0,'');
INSERT INTO "inbox" VALUES('dated','START','START',1900002721000,1900000021000,NULL,1,NULL,0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('forked','POLL_TIMEOUT:right','POLL_TIMEOUT',1900007221000,1900000021000,NULL,5,'right',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('forked','TOTAL_TIMEOUT:right','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,4,'right',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('forked','WAIT_ENDS:wait','WAIT_ENDS',1900001821000,1900000021000,NULL,3,'wait',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('jumped','POLL_TIMEOUT:a','POLL_TIMEOUT',1900007221000,1900000021000,NULL,2,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('jumped','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('later','POLL_TIMEOUT:asked','POLL_TIMEOUT',1900007221000,1900000021000,NULL,10,'asked',0,0,'{"since":1900003621000,"span":3600000}',0,'');
INSERT INTO "inbox" VALUES('later','TASK_TIMEOUT:asked','TASK_TIMEOUT',1900003621000,1900000021000,NULL,8,'asked',0,0,'{"since":1900000021000,"span":3600000}',0,'');
INSERT INTO "inbox" VALUES('looping','RESPONSE_TIMEOUT:turn__2','RESPONSE_TIMEOUT',1900000921000,1900000021000,NULL,10,'turn__2',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('looping','TASK_TIMEOUT:turn__2','TASK_TIMEOUT',1900007221000,1900000021000,NULL,9,'turn__2',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('looping','TOTAL_TIMEOUT:turn__2','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,6,'turn__2',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('moved','POLL_TIMEOUT:a','POLL_TIMEOUT',1900007221000,1900000021000,NULL,2,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('moved','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('offered','POLL_TIMEOUT:a','POLL_TIMEOUT',1900007221000,1900000021000,NULL,2,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('offered','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('parked','REPORT@1900000021000:a:568ec7aab404f393','REPORT',1900000021000,1900000021000,'',0,'a',0,0,'{"taskId":"ce450506e5fe21bd651dcadf573eb014","status":"COMPLETED","callbackAfterMs":0,"workerId":"golden","lease":3,"output":{"by":"a","got":{"x":4}}}',1,'');
INSERT INTO "inbox" VALUES('parked','RESPONSE_TIMEOUT:a','RESPONSE_TIMEOUT',1900000921000,1900000021000,NULL,5,'a',0,0,'{}',1,'');
INSERT INTO "inbox" VALUES('parked','TASK_TIMEOUT:a','TASK_TIMEOUT',1900007221000,1900000021000,NULL,4,'a',0,0,'{}',1,'');
INSERT INTO "inbox" VALUES('parked','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'a',0,0,'{}',1,'');
INSERT INTO "inbox" VALUES('paused','CONTINUE:a','CONTINUE',1900000021000,1900000021000,NULL,6,'a',0,0,'{"queue":[["advance","a"]]}',1,'');
INSERT INTO "inbox" VALUES('polled','RESPONSE_TIMEOUT:a','RESPONSE_TIMEOUT',1900000921000,1900000021000,NULL,6,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('polled','TASK_TIMEOUT:a','TASK_TIMEOUT',1900007221000,1900000021000,NULL,5,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('polled','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,2,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('polled','WORKFLOW_TIMEOUT','WORKFLOW_TIMEOUT',1900020021000,1900000021000,NULL,1,NULL,0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('slot 1','RESPONSE_TIMEOUT:a','RESPONSE_TIMEOUT',1900000921000,1900000021000,NULL,5,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('slot 1','TASK_TIMEOUT:a','TASK_TIMEOUT',1900007221000,1900000021000,NULL,4,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('slot 1','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('slot 2','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('slot 3','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,1,'a',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('spread','RESPONSE_TIMEOUT:q','RESPONSE_TIMEOUT',1900000921000,1900000021000,NULL,10,'q',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('spread','TASK_TIMEOUT:q','TASK_TIMEOUT',1900007221000,1900000021000,NULL,9,'q',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('spread','TOTAL_TIMEOUT:q','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,3,'q',0,0,'{}',0,'');
INSERT INTO "inbox" VALUES('tried','POLL_TIMEOUT:a','POLL_TIMEOUT',1900007521000,1900000021000,NULL,7,'a',1,0,'{}',0,'');
INSERT INTO "inbox" VALUES('tried','TOTAL_TIMEOUT:a','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,6,'a',1,0,'{}',0,'');
INSERT INTO "inbox" VALUES('undoing','RESPONSE_TIMEOUT:unbook','RESPONSE_TIMEOUT',1900000921000,1900000021000,NULL,15,'unbook',0,1,'{}',0,'');
INSERT INTO "inbox" VALUES('undoing','TASK_TIMEOUT:unbook','TASK_TIMEOUT',1900007221000,1900000021000,NULL,14,'unbook',0,1,'{}',0,'');
INSERT INTO "inbox" VALUES('undoing','TOTAL_TIMEOUT:unbook','TOTAL_TIMEOUT',1900014421000,1900000021000,NULL,11,'unbook',0,1,'{}',0,'');
CREATE TABLE indexed (
    feed INTEGER NOT NULL, place INTEGER NOT NULL, fence INTEGER NOT NULL, live INTEGER NOT NULL, PRIMARY KEY (feed, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE limit_members (
    key TEXT NOT NULL, holder TEXT NOT NULL, workflow_id TEXT NOT NULL, ref TEXT, attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL, state TEXT NOT NULL, number INTEGER NOT NULL, priority INTEGER NOT NULL,
    asked_at INTEGER NOT NULL, created_at INTEGER NOT NULL, seq INTEGER NOT NULL, concurrent INTEGER NOT NULL,
    rate INTEGER NOT NULL, window_ms INTEGER NOT NULL, lane TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (key, holder)
) STRICT, WITHOUT ROWID;
INSERT INTO "limit_members" VALUES('task:narrow','24fa3f60783c8e314e89e16c1ac9eef3','slot 3','a',0,0,'WAITING',0,0,1900000021000,1900000021000,1,1,0,0,'');
INSERT INTO "limit_members" VALUES('task:narrow','3b5984607358fa772333b97a8d1e3068','slot 2','a',0,0,'WAITING',0,0,1900000021000,1900000021000,1,1,0,0,'');
INSERT INTO "limit_members" VALUES('task:narrow','43763a9192e69b14eabf1f27b0261062','slot 1','a',0,0,'HELD',1,0,1900000021000,1900000021000,1,1,0,0,'');
INSERT INTO "limit_members" VALUES('workflow:gates','gates 1','gates 1',NULL,0,0,'HELD',1,0,1900000021000,1900000021000,1,1,0,0,'');
INSERT INTO "limit_members" VALUES('workflow:gates','gates 2','gates 2',NULL,0,0,'WAITING',0,0,1900000021000,1900000021000,1,1,0,0,'');
INSERT INTO "limit_members" VALUES('workflow:gates','gates 3','gates 3',NULL,0,0,'WAITING',0,0,1900000021000,1900000021000,1,1,0,0,'');
CREATE TABLE limits (
    key TEXT PRIMARY KEY NOT NULL, fence INTEGER NOT NULL, in_use INTEGER NOT NULL, reserved INTEGER NOT NULL,
    log TEXT NOT NULL, depth INTEGER NOT NULL, span_ms INTEGER NOT NULL, number INTEGER NOT NULL, alarm TEXT, alarm_at INTEGER
, unpolled TEXT, read_at INTEGER NOT NULL DEFAULT 0, boot TEXT NOT NULL DEFAULT '', steady INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
INSERT INTO "limits" VALUES('task:narrow',3,1,0,'[]',0,0,1,NULL,NULL,NULL,0,'',0);
INSERT INTO "limits" VALUES('workflow:gates',3,1,0,'[]',0,0,1,NULL,NULL,NULL,0,'',0);
CREATE TABLE loose_payloads (
    key TEXT NOT NULL, workflow_id TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, workflow_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
    workflow_id TEXT NOT NULL, ref TEXT NOT NULL, queue TEXT NOT NULL, attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL, task_id TEXT NOT NULL, due_at INTEGER NOT NULL, priority INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, ref)
) STRICT, WITHOUT ROWID;
INSERT INTO "messages" VALUES('5622c92201838b96aacb37af9c0542eb','m','work',0,0,'0f48ffd746358121e9ad4f35ef5924dd',1900000021000,0);
INSERT INTO "messages" VALUES('again','b','work_again',0,1,'5615eea700c100ebe56a2c7212ac1e0b',1900000021000,0);
INSERT INTO "messages" VALUES('called','call','HTTP',0,0,'1419dd33faa417c68aa07ec5d0a69ac4',1900000021000,0);
INSERT INTO "messages" VALUES('chosen','two','work_chosen',0,0,'be0b51d57cf10110a1c6e8c3d672ddc8',1900000021000,0);
INSERT INTO "messages" VALUES('forked','right','work_forked',0,0,'9cce6ba9133c3b1f165d249b47071148',1900000021000,0);
INSERT INTO "messages" VALUES('jumped','a','work_jumped',0,0,'0122dddd19fbe47c9362a068c40c15a5',1900000021000,0);
INSERT INTO "messages" VALUES('later','asked','work_later',0,0,'0677b832bf2b54849ff0e225772bc875',1900003621000,0);
INSERT INTO "messages" VALUES('moved','a','work_moved',0,0,'575fc05709bf6e28d29408aef75cf4ad',1900000021000,0);
INSERT INTO "messages" VALUES('offered','a','mars:far',0,0,'48e2f9908dfa0937cb798812910b341f',1900000021000,9);
INSERT INTO "messages" VALUES('tried','a','work_tried',1,0,'daf03d2e483c461b042002b9f0734430',1900000321000,0);
CREATE TABLE pending (
    n INTEGER PRIMARY KEY AUTOINCREMENT, feed INTEGER NOT NULL, workflow_id TEXT NOT NULL
) STRICT;
CREATE TABLE polls (
    task_type TEXT NOT NULL, domain TEXT NOT NULL, worker_id TEXT, polled_at INTEGER NOT NULL,
    PRIMARY KEY (task_type, domain)
) STRICT, WITHOUT ROWID;
INSERT INTO "polls" VALUES('narrow','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_again','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_chosen','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_completed','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_failed','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_family','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_forked','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_later','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_looping','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_optional','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_parked','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_paused','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_polled','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_spread','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_terminated','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_tried','','golden',1900000021000);
INSERT INTO "polls" VALUES('work_undoing','','golden',1900000021000);
CREATE TABLE schedules (
    name TEXT PRIMARY KEY NOT NULL, address TEXT NOT NULL, text TEXT NOT NULL, progress TEXT NOT NULL,
    waits INTEGER NOT NULL, fence INTEGER NOT NULL
, owner TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE schema_defs (
    name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE task_defs (name TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE task_logs (
    n INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL, task_id TEXT NOT NULL, at INTEGER NOT NULL, text TEXT NOT NULL
) STRICT;
INSERT INTO "task_logs" VALUES(1,'polled','a4a0086f38af3cf6dfdbf7c06abd43c8',1900000021000,'began');
INSERT INTO "task_logs" VALUES(2,'polled','a4a0086f38af3cf6dfdbf7c06abd43c8',1900000021000,'half done');
INSERT INTO "task_logs" VALUES(3,'tried','daf03d2e45b9594aaae0d1c1615a8a0d',1900000021000,'tried in vain');
CREATE TABLE tasks (
    execution INTEGER NOT NULL, ref TEXT NOT NULL, attempt INTEGER NOT NULL, task_id ANY NOT NULL, base_ref TEXT,
    iterations TEXT NOT NULL, seq INTEGER NOT NULL, task_type TEXT NOT NULL, name TEXT, status INTEGER NOT NULL,
    input TEXT NOT NULL, output TEXT NOT NULL, reason TEXT, worker_id TEXT, holder TEXT NOT NULL,
    lease INTEGER NOT NULL, poll_count INTEGER NOT NULL, scheduled_at INTEGER NOT NULL, first_scheduled_at INTEGER,
    due_at INTEGER, started_at INTEGER, updated_at INTEGER, ended_at INTEGER, poll_timeout_at INTEGER,
    response_timeout_at INTEGER, timeout_at INTEGER, retried INTEGER NOT NULL, executed INTEGER NOT NULL,
    live INTEGER NOT NULL, fence INTEGER NOT NULL, rest TEXT, PRIMARY KEY (execution, ref, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "tasks" VALUES(1,'a',0,X'07A22BB2A5C01837EEEBE14E7CE97F88',NULL,'',1,'work_unpolled',NULL,7,'{"x":14}','{}','Task poll timed out after 10 seconds. Poll timeout configured as 10 seconds. Timeout policy configured to TIME_OUT_WF',NULL,'',0,0,1900000000000,0,0,NULL,10000,10000,NULL,NULL,NULL,0,0,1,2,NULL);
INSERT INTO "tasks" VALUES(2,'h',0,X'779669398C10802683AD2C48F14DE833',NULL,'',1,'HUMAN','h',8,'{}','{}',NULL,NULL,'',0,0,1900000000000,0,NULL,0,20000,20000,NULL,NULL,NULL,0,0,1,2,NULL);
INSERT INTO "tasks" VALUES(3,'a',0,X'A4A0086F38AF3CF6DFDBF7C06ABD43C8',NULL,'',1,'work_polled',NULL,1,'#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a','{}',NULL,'golden','',4,1,1900000021000,0,0,0,0,NULL,NULL,900000,7200000,0,0,1,2,'{"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(4,'a',0,X'48E2F9908DFA0937CB798812910B341F',NULL,'',1,'far',NULL,0,'{"x":1}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,7200000,NULL,NULL,0,0,1,1,'{"domain":"mars","total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(5,'a',0,X'DAF03D2E45B9594AAAE0D1C1615A8A0D',NULL,'',1,'work_tried',NULL,5,'{"x":1}','{}','503','golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,1,0,0,3,NULL);
INSERT INTO "tasks" VALUES(5,'a',1,X'DAF03D2E483C461B042002B9F0734430',NULL,'',2,'work_tried',NULL,0,'{"x":1}','{}',NULL,NULL,'',0,0,1900000021000,0,300000,NULL,0,NULL,7500000,NULL,NULL,0,0,1,3,'{"start_delay_ms":300000,"retried_task_id":"daf03d2e45b9594aaae0d1c1615a8a0d","total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(6,'call',0,X'1419DD33FAA417C68AA07EC5D0A69AC4',NULL,'',1,'HTTP','call',0,'{"http_request":{"uri":"http://nowhere.example/","method":"GET"},"asyncComplete":false}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,3600000,NULL,NULL,0,0,1,1,NULL);
INSERT INTO "tasks" VALUES(7,'a',0,X'0677B832322543E682E8099AB66BAFB3',NULL,'',1,'work_later',NULL,2,'{"x":2}','{"by":"a","got":{"x":2}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(7,'asked',0,X'0677B832BF2B54849FF0E225772BC875',NULL,'',2,'work_later',NULL,0,'{}','{}',NULL,'golden','',0,1,1900000021000,0,3600000,0,0,NULL,7200000,NULL,3600000,0,0,1,5,'{"callback_after_ms":3600000}');
INSERT INTO "tasks" VALUES(8,'a',0,X'9651DCC4B29F45D4470E38686D13FE35',NULL,'',1,'work_paused',NULL,2,'{"x":3}','{"by":"a","got":{"x":3}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,0,1,4,NULL);
INSERT INTO "tasks" VALUES(9,'a',0,X'CE450506E5FE21BD651DCADF573EB014',NULL,'',1,'work_parked',NULL,1,'{"x":4}','{}',NULL,'golden','',3,1,1900000021000,0,0,0,0,NULL,NULL,900000,7200000,0,0,1,2,'{"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(10,'fork',0,X'9CCE6BA9DE774DC81A6D21CE5D23A767',NULL,'',1,'FORK','fork',2,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,NULL);
INSERT INTO "tasks" VALUES(10,'join',0,X'9CCE6BA9A9F0E5C74A11DEAC59E32175',NULL,'',5,'JOIN','join',1,'{"joinOn":["left","wait","right"]}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,3,'{"waiting":2}');
INSERT INTO "tasks" VALUES(10,'left',0,X'9CCE6BA9FBE5367171297C71040D82EE',NULL,'',2,'work_forked',NULL,2,'{"x":5}','{"by":"left","got":{"x":5}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(10,'right',0,X'9CCE6BA9133C3B1F165D249B47071148',NULL,'',4,'work_forked',NULL,0,'{"x":5}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,7200000,NULL,NULL,0,0,1,1,'{"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(10,'wait',0,X'9CCE6BA98F93CDC7E282584EF2AEAC2F',NULL,'',3,'WAIT','wait',1,'{"duration":"30 minutes"}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,1,'{"wait_until":1900001821000}');
INSERT INTO "tasks" VALUES(11,'either',0,X'BE0B51D5C13A1419FE6A80C2C945815D',NULL,'',3,'EXCLUSIVE_JOIN','either',2,'{"joinOn":["one"],"defaultExclusiveJoinTask":[]}','{"by":"one","got":{"x":6}}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(11,'old',0,X'BE0B51D541DDBE46E0600D174A8CA40A',NULL,'',4,'DECISION','old',2,'{"case":"x","hasChildren":"true"}','{"caseOutput":["x"]}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(11,'one',0,X'BE0B51D56659C2AAB01AC48E17242CAF',NULL,'',2,'work_chosen',NULL,2,'{"x":6}','{"by":"one","got":{"x":6}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(11,'two',0,X'BE0B51D57CF10110A1C6E8C3D672DDC8',NULL,'',5,'work_chosen',NULL,0,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,3600000,NULL,NULL,0,0,1,3,NULL);
INSERT INTO "tasks" VALUES(11,'way',0,X'BE0B51D5A51B0A7450D0934BA1F40F8A',NULL,'',1,'SWITCH','way',2,'{"c":"x","case":"x","hasChildren":"true"}','{"evaluationResult":["x"],"selectedCase":"x"}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,NULL);
INSERT INTO "tasks" VALUES(12,'count__1',0,X'4FA0D7CC65937CD61A55A59B46E81EBF','count','1',3,'SET_VARIABLE','count',2,'{"n":"turn__1"}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(12,'loop',0,X'4FA0D7CCECFC7AA5DD7BA6AB28596F1D',NULL,'',1,'DO_WHILE','loop',1,'{"keepLastN":2}','{"iteration":2}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,3,'{"round":2,"open":1}');
INSERT INTO "tasks" VALUES(12,'turn__1',0,X'4FA0D7CC680897B7324E9559EE2D42F4','turn','1',2,'work_looping',NULL,2,'{"x":1}','{"by":"turn__1","got":{"x":1}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(12,'turn__2',0,X'4FA0D7CCD67AD961B1E34BAF4C0F0DB8','turn','2',4,'work_looping',NULL,1,'{"x":2}','{}',NULL,'golden','',8,1,1900000021000,0,0,0,0,NULL,NULL,900000,7200000,0,0,1,4,'{"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(13,'gather',0,X'7789507A1D69C886E4DC134C23FCE44B',NULL,'',5,'JOIN','gather',1,'{"joinOn":["p","q","r"]}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,3,'{"open":1}');
INSERT INTO "tasks" VALUES(13,'p',0,X'7789507A1AC404037A455B37E92A53C8',NULL,'',2,'work_spread',NULL,2,'{"x":null}','{"by":"p","got":{"x":null}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,'{"grafts":["407e7a39aa7aa72a49ecad3a41fe02b3971814134e168cf97596858915a5a6af"]}');
INSERT INTO "tasks" VALUES(13,'q',0,X'7789507A33CFF50E30AF99F8EC7707D0',NULL,'',3,'work_spread',NULL,1,'{"x":null}','{}',NULL,'golden','',8,1,1900000021000,0,0,0,0,NULL,NULL,900000,7200000,0,0,1,4,'{"grafts":["407e7a39aa7aa72a49ecad3a41fe02b3971814134e168cf97596858915a5a6af"],"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(13,'r',0,X'7789507A349047E13E5FE4F9606C300C',NULL,'',4,'NOOP','r',2,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,'{"grafts":["407e7a39aa7aa72a49ecad3a41fe02b3971814134e168cf97596858915a5a6af"]}');
INSERT INTO "tasks" VALUES(13,'spread',0,X'7789507AC208F133C4DE71A643D86D7A',NULL,'',1,'FORK','spread',2,'{"t":[{"name":"work_spread","taskReferenceName":"p","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"pollTimeoutSeconds":7200,"timeoutSeconds":7200,"responseTimeoutSeconds":900,"totalTimeoutSeconds":14400}},{"name":"work_spread","taskReferenceName":"q","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"pollTimeoutSeconds":7200,"timeoutSeconds":7200,"responseTimeoutSeconds":900,"totalTimeoutSeconds":14400}},{"name":"r","taskReferenceName":"r","type":"NOOP"}],"i":{},"forkedTasks":["p","q","r"],"forkedDefinitionHash":"407e7a39aa7aa72a49ecad3a41fe02b3971814134e168cf97596858915a5a6af"}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,NULL);
INSERT INTO "tasks" VALUES(14,'child',0,X'4C87DF4D39F0C1D8A1EBD7942BC547F6',NULL,'',1,'SUB_WORKFLOW','child',1,'{"subWorkflowName":"inner","subWorkflowVersion":1,"subWorkflowTaskToDomain":{},"priority":0,"workflowInput":{},"conductorlite:definitionHash":"61d0a9956fb62b887c91d477e59362245ff3a92e7fcddf35828a4c8ca03b0bc6"}','{"subWorkflowId":"478475433cbff984959c7a532b70f5a4"}',NULL,NULL,'',0,0,1900000021000,0,0,0,0,NULL,NULL,NULL,NULL,0,0,1,1,'{"sub_workflow_id":"478475433cbff984959c7a532b70f5a4"}');
INSERT INTO "tasks" VALUES(15,'c1',0,X'F0DCE90715ADCCE7B8C2AEF0240CACC8',NULL,'',1,'work_family',NULL,2,'{"x":null}','{"by":"c1","got":{"x":null}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(15,'gate',0,X'F0DCE907C6893F85D0FC1DAA6FA3EC20',NULL,'',2,'HUMAN','gate',1,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,3,NULL);
INSERT INTO "tasks" VALUES(16,'gate',0,X'ADDE36BEB3BD79EB838CDD76BCB86123',NULL,'',4,'HUMAN','gate',1,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,1,NULL);
INSERT INTO "tasks" VALUES(16,'inline',0,X'ADDE36BE3CFF0312116276BBBE066933',NULL,'',1,'INLINE','inline',2,'{"evaluatorType":"javascript","expression":"$.x + 1","x":1}','{"result":2}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,NULL);
INSERT INTO "tasks" VALUES(16,'jq',0,X'ADDE36BE440A3E411547D9B81AD9FBD7',NULL,'',3,'JSON_JQ_TRANSFORM','jq',2,'{"queryExpression":".x | length","x":[1,2,3]}','{"result":3,"resultList":[3]}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,NULL);
INSERT INTO "tasks" VALUES(16,'lambda',0,X'ADDE36BE862F7CD042E5501679C74CA1',NULL,'',2,'LAMBDA','lambda',2,'{"scriptExpression":"return $.x","x":2}','{"result":2}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,NULL);
INSERT INTO "tasks" VALUES(17,'book',0,X'FEB1B847B448A3A8EE5F3DF8FB37C08D',NULL,'',1,'work_undoing',NULL,2,'{"x":7}','{"by":"book","got":{"x":7}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,5,NULL);
INSERT INTO "tasks" VALUES(17,'pay',0,X'FEB1B847C1777C1CD6D18518BD06BE1E',NULL,'',2,'work_undoing',NULL,2,'{"x":7}','{"by":"pay","got":{"x":7}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,5,'{"compensation_next":"book"}');
INSERT INTO "tasks" VALUES(17,'refund',0,X'FEB1B8473A8BC89A031C176CA11B0E4E',NULL,'',4,'SET_VARIABLE','refund',2,'{"refunded":"pay"}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,5,'{"generation":1}');
INSERT INTO "tasks" VALUES(17,'stop',0,X'FEB1B847D4DFAD17C6B5348104CEA214',NULL,'',3,'TERMINATE','stop',2,'{"terminationStatus":"FAILED","terminationReason":"no stock"}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,0,1,5,NULL);
INSERT INTO "tasks" VALUES(17,'unbook',0,X'FEB1B84760D7BB28952C90446C76E2BC',NULL,'',5,'work_undoing',NULL,1,'{"x":"book"}','{}',NULL,'golden','',13,1,1900000021000,0,0,0,0,NULL,NULL,900000,7200000,0,0,1,6,'{"generation":1,"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(18,'a',0,X'575FC05709BF6E28D29408AEF75CF4AD',NULL,'',1,'work_moved',NULL,0,'{"x":8}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,7200000,NULL,NULL,0,0,1,1,'{"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(19,'a',0,X'5615EEA792EA463385CC80CA245B6538',NULL,'',1,'work_again',NULL,2,'{"x":9}','{"by":"a","got":{"x":9}}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(19,'b',0,X'5615EEA700C100EBE56A2C7212AC1E0B',NULL,'',4,'work_again',NULL,0,'{"x":9}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,7200000,NULL,NULL,0,0,1,6,'{"generation":1,"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(20,'a',0,X'0122DDDD19FBE47C9362A068C40C15A5',NULL,'',1,'work_jumped',NULL,0,'{"x":10}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,7200000,NULL,NULL,0,0,1,1,'{"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(20,'s',0,X'0122DDDD388F703D2734279F47BFFF26',NULL,'',0,'work_jumped',NULL,10,'{}','{"skipped":true}',NULL,NULL,'',0,0,1900000021000,0,NULL,NULL,0,0,NULL,NULL,NULL,0,0,0,2,NULL);
INSERT INTO "tasks" VALUES(21,'a',0,X'B8CD7AFC1F28E29812DDA232771E0ECF',NULL,'',1,'work_completed',NULL,2,'#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a','#3809b14cc473470b11150d2bdf0190f7b50b20c8e82bfacac422b83edeff0c78',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(22,'a',0,X'A0C85D92CDBA9DEF86F00D80440510BF',NULL,'',1,'work_failed',NULL,6,'{"x":11}','{}','nobody at home','golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,0,1,3,NULL);
INSERT INTO "tasks" VALUES(23,'m',0,X'0F48FFD746358121E9AD4F35EF5924DD',NULL,'',1,'work',NULL,0,'{"x":11}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,7200000,NULL,NULL,0,0,1,1,'{"total_timeout_at":1900014421000}');
INSERT INTO "tasks" VALUES(24,'fork',0,X'E1BCCCD7A78386BE377212919FE0EFDD',NULL,'',1,'FORK','fork',2,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,1,0,1,NULL);
INSERT INTO "tasks" VALUES(24,'join',0,X'E1BCCCD704533857E63FDDE5E8143276',NULL,'',5,'JOIN','join',8,'{"joinOn":["left","wait","right"]}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,0,1,3,'{"waiting":3}');
INSERT INTO "tasks" VALUES(24,'left',0,X'E1BCCCD743CAFD76F9A336E45395B017',NULL,'',2,'work_terminated',NULL,8,'{"x":12}','{}',NULL,'golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,0,1,3,NULL);
INSERT INTO "tasks" VALUES(24,'right',0,X'E1BCCCD7F8ECD769BD3CFD8F01ACA15E',NULL,'',4,'work_terminated',NULL,8,'{"x":12}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,0,NULL,NULL,NULL,0,0,1,3,NULL);
INSERT INTO "tasks" VALUES(24,'wait',0,X'E1BCCCD7957E14EFAF44559B5E2AF77E',NULL,'',3,'WAIT','wait',8,'{"duration":"30 minutes"}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,0,NULL,NULL,NULL,0,0,1,3,'{"wait_until":1900001821000}');
INSERT INTO "tasks" VALUES(25,'a',0,X'12BC83EA9EA01B8F26336036199FE2A9',NULL,'',1,'work_optional',NULL,9,'{"x":13}','{}','nobody at home','golden','',0,1,1900000021000,0,0,0,0,0,NULL,NULL,NULL,0,1,0,3,NULL);
INSERT INTO "tasks" VALUES(25,'gate',0,X'12BC83EA59885DD7B4C226B12483A6E9',NULL,'',2,'HUMAN','gate',1,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,3,NULL);
INSERT INTO "tasks" VALUES(26,'k',0,X'403621C75B9E0051CC74D2207402A6A9',NULL,'',1,'HUMAN','k',1,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,1,NULL);
INSERT INTO "tasks" VALUES(28,'a',0,X'43763A9192E69B14EABF1F27B0261062',NULL,'',1,'narrow',NULL,1,'{"x":1}','{}',NULL,'golden','',3,1,1900000021000,0,0,0,0,NULL,NULL,900000,7200000,0,0,1,2,'{"total_timeout_at":1900014421000,"limit_key":"task:narrow"}');
INSERT INTO "tasks" VALUES(29,'gate',0,X'82035447EBF33CD854F0B2B6C7177EB3',NULL,'',1,'HUMAN','gate',1,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,0,0,NULL,NULL,NULL,NULL,0,0,1,1,NULL);
INSERT INTO "tasks" VALUES(30,'a',0,X'3B5984607358FA772333B97A8D1E3068',NULL,'',1,'narrow',NULL,4,'{"x":2}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,NULL,NULL,NULL,0,0,1,1,'{"total_timeout_at":1900014421000,"limit_key":"task:narrow"}');
INSERT INTO "tasks" VALUES(31,'gate',0,X'D3F8B277629A7439B19FBB2D5B8A1C67',NULL,'',1,'HUMAN','gate',4,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,NULL,0,NULL,NULL,NULL,NULL,0,0,1,1,NULL);
INSERT INTO "tasks" VALUES(32,'a',0,X'24FA3F60783C8E314E89E16C1AC9EEF3',NULL,'',1,'narrow',NULL,4,'{"x":3}','{}',NULL,NULL,'',0,0,1900000021000,0,0,NULL,0,NULL,NULL,NULL,NULL,0,0,1,1,'{"total_timeout_at":1900014421000,"limit_key":"task:narrow"}');
INSERT INTO "tasks" VALUES(33,'gate',0,X'ECDBB6AF6BA4722F47E1C99A407F80E8',NULL,'',1,'HUMAN','gate',4,'{}','{}',NULL,NULL,'',0,0,1900000021000,0,NULL,NULL,0,NULL,NULL,NULL,NULL,0,0,1,1,NULL);
CREATE TABLE texts (
    execution INTEGER NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (execution, digest)
) STRICT;
INSERT INTO "texts" VALUES(3,'8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a','{"x":"large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large "}');
INSERT INTO "texts" VALUES(21,'8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a','{"x":"large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large "}');
INSERT INTO "texts" VALUES(21,'3809b14cc473470b11150d2bdf0190f7b50b20c8e82bfacac422b83edeff0c78','{"by":"a","got":{"x":"large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large large "}}');
INSERT INTO "texts" VALUES(23,'a4999eaaf3fa8c7859066f8541fb06fa1fd02ceea842cda188ccdd733edbe3d1','{"x":11,"workflowId":"failed","reason":"Task a0c85d92cdba9def86f00d80440510bf failed with status: FAILED_WITH_TERMINAL_ERROR and reason: ''nobody at home''","failureStatus":"FAILED","failureTaskId":"a0c85d92cdba9def86f00d80440510bf","failedWorkflow":{"workflowId":"failed","workflowName":"failed","workflowVersion":1,"status":"FAILED","createTime":1900000021000,"startTime":1900000021000,"updateTime":1900000021000,"endTime":1900000021000,"lastRetriedTime":0,"priority":0,"rateLimited":false,"input":{"x":11},"output":{},"variables":{},"taskToDomain":{},"reasonForIncompletion":"Task a0c85d92cdba9def86f00d80440510bf failed with status: FAILED_WITH_TERMINAL_ERROR and reason: ''nobody at home''","failedReferenceTaskNames":["a"],"failedTaskNames":["work_failed"],"tasks":[{"taskId":"a0c85d92cdba9def86f00d80440510bf","referenceTaskName":"a","taskType":"work_failed","taskDefName":"work_failed","status":"FAILED_WITH_TERMINAL_ERROR","workflowInstanceId":"failed","inputData":{"x":11},"outputData":{},"reasonForIncompletion":"nobody at home","retryCount":0,"retried":false,"executed":false,"seq":1,"pollCount":1,"workerId":"golden","scheduledTime":1900000021000,"startTime":1900000021000,"updateTime":1900000021000,"endTime":1900000021000,"queueWaitTime":0,"startDelayInSeconds":0,"callbackAfterSeconds":0,"callbackFromWorker":true,"iteration":0,"loopOverTask":false}],"workflowDefinition":{"name":"failed","version":1,"tasks":[{"name":"work_failed","taskReferenceName":"a","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_failed","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}},{"name":"work_failed","taskReferenceName":"b","type":"SIMPLE"}],"failureWorkflow":"mourn","schemaVersion":2},"failedTaskId":"a0c85d92cdba9def86f00d80440510bf"}}');
CREATE TABLE workflow_defs (
    name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name, version)
) STRICT;
INSERT INTO "workflow_defs" VALUES('mourn',1,'{"name":"mourn","version":1,"tasks":[{"name":"work","taskReferenceName":"m","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work","retryCount":2,"retryDelaySeconds":300,"timeoutSeconds":7200,"totalTimeoutSeconds":14400,"responseTimeoutSeconds":900,"pollTimeoutSeconds":7200}}],"outputParameters":{"why":"${workflow.input.reason}"},"schemaVersion":2}');
INSERT INTO "workflow_defs" VALUES('keyed',1,'{"name":"keyed","version":1,"tasks":[{"name":"k","taskReferenceName":"k","type":"HUMAN"}],"schemaVersion":2}');
CREATE TABLE workflows (
    execution INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL UNIQUE, head INTEGER NOT NULL, name TEXT NOT NULL,
    version INTEGER NOT NULL, definition_hash ANY NOT NULL, status INTEGER NOT NULL, fence INTEGER NOT NULL,
    created_at INTEGER NOT NULL, started_at INTEGER, updated_at INTEGER, ended_at INTEGER, correlation_id TEXT,
    parent_workflow_id TEXT, owner TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, variables TEXT NOT NULL,
    task_to_domain TEXT NOT NULL, reason TEXT, task_seq INTEGER NOT NULL, history_seq INTEGER NOT NULL,
    sequence INTEGER NOT NULL, open INTEGER NOT NULL, last_ref TEXT, parked TEXT, broken_turns INTEGER NOT NULL, rest TEXT
) STRICT;
INSERT INTO "workflows" VALUES(1,'unpolled',128068530,'unpolled',1,X'C0D04161FDD41C50524ECDAAA3D8E18809503A0DAA0E94B27D2E816E4F825BE7',7,2,1900000000000,0,10000,10000,NULL,NULL,'','{"x":14}','{}','{}','{}','Task poll timed out after 10 seconds. Poll timeout configured as 10 seconds. Timeout policy configured to TIME_OUT_WF',1,4,2,1,'a',NULL,0,'{"failed_refs":["a"],"failed_task_names":["work_unpolled"],"failed_task_id":"07a22bb2a5c01837eeebe14e7ce97f88"}');
INSERT INTO "workflows" VALUES(2,'timed_out',2006346041,'timed_out',1,X'2D1045615ECEE0D67B3D48489B8E6B51F0FA8216E972FC87CFC7916F5201E79F',7,2,1900000000000,0,20000,20000,NULL,NULL,'','{}','{}','{}','{}','Workflow timed out after 20 seconds. Timeout configured as 20 seconds. Timeout policy configured to TIME_OUT_WF',1,4,1,1,'h',NULL,0,NULL);
INSERT INTO "workflows" VALUES(3,'polled',2761951343,'polled',1,X'280ECE8D50FD6E8069A4A1F080640E3B8594645D237B8D9FFC28653D50DB3971',3,2,1900000021000,0,0,NULL,NULL,NULL,'','#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a','{}','{}','{}',NULL,1,3,6,1,'a',NULL,0,'{"timeout_at":1900020021000}');
INSERT INTO "workflows" VALUES(4,'offered',1222834576,'offered',1,X'5420E6F5A735A2C927047E006BC04536BACD9B40CC81F293ED15F681E48844AC',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{"x":1}','{}','{}','{"far":"mars"}',NULL,1,2,2,1,'a',NULL,0,'{"priority":9}');
INSERT INTO "workflows" VALUES(5,'tried',3673177390,'tried',1,X'135F80005D7CF1DC1E38BF93748085EFAEF322C783E3F21176F8AA68B4EF3A79',3,3,1900000021000,0,0,NULL,NULL,NULL,'','{"x":1}','{}','{}','{}',NULL,2,5,7,1,'a',NULL,0,NULL);
INSERT INTO "workflows" VALUES(6,'called',337239347,'called',1,X'96FFAF084768FD01B23B407793089B659C4CBA45F527004CE9D71E9BAD1A224F',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{}','{}','{}','{}',NULL,1,2,1,1,'call',NULL,0,NULL);
INSERT INTO "workflows" VALUES(7,'later',108509234,'later',1,X'A7EEEA45D7C538A2D68000E2F2E6F11F1E242EBD7CC65C91A947D38A71F4C50D',3,5,1900000021000,0,0,NULL,NULL,NULL,'','{"x":2}','{}','{}','{}',NULL,2,7,10,1,'asked',NULL,0,NULL);
INSERT INTO "workflows" VALUES(8,'paused',2521947332,'paused',1,X'CB44193D5861A875D877B029FA62DBCC70D680F66F3ED2EAFAE230935311E3CF',11,4,1900000021000,0,0,NULL,NULL,NULL,'','{"x":3}','{}','{}','{}',NULL,1,5,6,1,'a',NULL,0,NULL);
INSERT INTO "workflows" VALUES(9,'parked',3460629766,'parked',1,X'30919A428B5BF03A3162D63FA6252A9F20535934DEF32691316E1CF77EC24C67',3,2,1900000021000,0,0,NULL,NULL,NULL,'','{"x":4}','{}','{}','{}',NULL,1,3,5,1,'a','a law did not hold',3,NULL);
INSERT INTO "workflows" VALUES(10,'forked',2630773673,'forked',1,X'5D830D85616F6AACD3911F455B19FD3678D86518774546B8E1736D6FA7755DDC',3,3,1900000021000,0,0,NULL,NULL,NULL,'','{"x":5}','{}','{}','{}',NULL,5,8,8,3,'join',NULL,0,NULL);
INSERT INTO "workflows" VALUES(11,'chosen',3188412885,'chosen',1,X'2285C4A7B0BFA687E9185F5AB2DAA3CE41F6371C9D7AB7F63D9CF5B6A52F3056',3,3,1900000021000,0,0,NULL,NULL,NULL,'','{"x":6,"case":"x"}','{}','{}','{}',NULL,5,9,6,1,'two',NULL,0,NULL);
INSERT INTO "workflows" VALUES(12,'looping',1335941068,'looping',1,X'1CCC0F9F2CBFE173EE83C0C8437EAA07F6065A0D90407465891C21BD7A5C86E9',3,4,1900000021000,0,0,NULL,NULL,NULL,'','{}','{}','{"n":"turn__1"}','{}',NULL,4,10,10,1,'turn__2',NULL,0,NULL);
INSERT INTO "workflows" VALUES(13,'spread',2005487738,'spread',1,X'3689F758273B34C013FB2201E64EFB8A17DAE22CEDB24E96710CC9A26A29B4D4',3,4,1900000021000,0,0,NULL,NULL,NULL,'','{"branches":[{"name":"work_spread","taskReferenceName":"p","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"pollTimeoutSeconds":7200,"timeoutSeconds":7200,"responseTimeoutSeconds":900,"totalTimeoutSeconds":14400}},{"name":"work_spread","taskReferenceName":"q","type":"SIMPLE","inputParameters":{"x":"${workflow.input.x}"},"taskDefinition":{"name":"work_spread","retryCount":2,"retryDelaySeconds":300,"pollTimeoutSeconds":7200,"timeoutSeconds":7200,"responseTimeoutSeconds":900,"totalTimeoutSeconds":14400}},{"name":"r","taskReferenceName":"r","type":"NOOP"}]}','{}','{}','{}',NULL,5,9,10,1,'gather',NULL,0,NULL);
INSERT INTO "workflows" VALUES(14,'family',1283972941,'family',1,X'BDE5F9D31D035D9C81ED48C0637B01B3B162359A3040A38D6B104CA53FE02766',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{}','{}','{}','{}',NULL,1,2,1,1,'child',NULL,0,NULL);
INSERT INTO "workflows" VALUES(15,'478475433cbff984959c7a532b70f5a4',4041009415,'inner',1,X'61D0A9956FB62B887C91D477E59362245FF3A92E7FCDDF35828A4C8CA03B0BC6',3,3,1900000021000,0,0,NULL,NULL,'family','','{}','{}','{}','{}',NULL,2,5,5,1,'gate',NULL,0,'{"parent_task_id":"4c87df4d39f0c1d8a1ebd7942bc547f6","parent_ref":"child","depth":1}');
INSERT INTO "workflows" VALUES(16,'scripts',2917021374,'scripts',1,X'21A9E2F18CA97A1B7915CEADA00B9276210C767BB01650061044419DEEF73F05',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{}','{}','{}','{}',NULL,4,5,0,1,'gate',NULL,0,NULL);
INSERT INTO "workflows" VALUES(17,'undoing',4273059911,'undoing',1,X'F44357B617AE05E51BF2DD8F8DD04120CB31E397B4646C859338796F95B54838',3,6,1900000021000,0,0,NULL,NULL,NULL,'','{"x":7}','{}','{"refunded":"pay"}','{}','no stock',5,14,15,2,'unbook',NULL,0,'{"generation":1,"failed_task_id":"feb1b847d4dfad17c6b5348104cea214","compensating":"FAILED"}');
INSERT INTO "workflows" VALUES(18,'moved',1465892951,'moved',2,X'EC6848B67727AAAA64472E07C306010782B00590F8622D409502B5BB13178DE8',3,2,1900000021000,0,0,NULL,NULL,NULL,'','{"x":8}','{}','{}','{}',NULL,1,3,2,1,'a',NULL,0,NULL);
INSERT INTO "workflows" VALUES(19,'again',1444277927,'again',1,X'7F2CF4EFDC7D640D08B34A9CD7101AEF15CDC476E9C457838447822816BA00BA',3,6,1900000021000,0,0,NULL,NULL,NULL,'','{"x":9}','{}','{}','{}',NULL,4,11,13,1,'b',NULL,0,'{"generation":1,"last_retried_at":1900000021000}');
INSERT INTO "workflows" VALUES(20,'jumped',19062237,'jumped',1,X'FB4BF5BDDEA9B2A1268C297E28C8907AACEF2617AF6742A679235B4CB047B4D8',3,3,1900000021000,0,0,NULL,NULL,NULL,'','{"x":10}','{}','{"by":"hand"}','{}',NULL,1,5,2,1,'a',NULL,0,'{"skips":1}');
INSERT INTO "workflows" VALUES(21,'completed',3100474108,'completed',1,X'A2520416E51DA85E3EE98C0006A715A546A9D35CC784C04C4B5C2635A81C6A63',2,3,1900000021000,0,0,0,NULL,NULL,'','#8dee9a45bd77e2c8cd42ad79c4136d20518a99f06aeb97e1c9a358f5a77d889a','{"by":"a"}','{}','{}',NULL,1,5,5,0,'a',NULL,0,NULL);
INSERT INTO "workflows" VALUES(22,'failed',2697485714,'failed',1,X'5BCB2C01A3E56F319796BC4E6A701D919970E739602E41430B828840B080A233',5,3,1900000021000,0,0,0,NULL,NULL,'','{"x":11}','{"conductor.failure_workflow":"5622c92201838b96aacb37af9c0542eb"}','{}','{}','Task a0c85d92cdba9def86f00d80440510bf failed with status: FAILED_WITH_TERMINAL_ERROR and reason: ''nobody at home''',1,5,6,1,'a',NULL,0,'{"failed_refs":["a"],"failed_task_names":["work_failed"],"failed_task_id":"a0c85d92cdba9def86f00d80440510bf"}');
INSERT INTO "workflows" VALUES(23,'5622c92201838b96aacb37af9c0542eb',256442327,'mourn',1,X'EF624C18009C242965BE095FDED3D5FC9E0C8DB0790B964C2AE42BDC42D02B2C',3,1,1900000021000,0,0,NULL,NULL,NULL,'','#a4999eaaf3fa8c7859066f8541fb06fa1fd02ceea842cda188ccdd733edbe3d1','{}','{}','{}',NULL,1,2,2,1,'m',NULL,0,'{"depth":1}');
INSERT INTO "workflows" VALUES(24,'terminated',3787246807,'terminated',1,X'A907634D3209BDECC67586ECCDB355F3E8F2427EA7652370CF519013BA67AD3C',12,3,1900000021000,0,0,0,NULL,NULL,'','{"x":12}','{}','{}','{}','enough',5,12,8,4,'join',NULL,0,NULL);
INSERT INTO "workflows" VALUES(25,'optional',314344426,'optional',1,X'8D551C85058A158E034DBB341FDF7C899C142448BA52F66419258F5D409A49B5',3,3,1900000021000,0,0,NULL,NULL,NULL,'','{"x":13}','{}','{}','{}',NULL,2,6,5,1,'gate',NULL,0,NULL);
INSERT INTO "workflows" VALUES(26,'keyed',1077289415,'keyed',1,X'911BE42842DCE96B5056B14D851F02BF3864165B04604C832748247CA9119EF7',3,1,1900000021000,0,0,NULL,'customer 1',NULL,'','{}','{}','{}','{}',NULL,1,2,0,1,'k',NULL,0,'{"priority":7,"created_by":"golden","idempotency_key":"order 7"}');
INSERT INTO "workflows" VALUES(27,'dated',3921209188,'keyed',1,X'911BE42842DCE96B5056B14D851F02BF3864165B04604C832748247CA9119EF7',3,1,1900000021000,NULL,0,NULL,NULL,NULL,'','{}','{}','{}','{}',NULL,0,1,1,0,NULL,NULL,0,NULL);
INSERT INTO "workflows" VALUES(28,'slot 1',1131821713,'slot',1,X'9A43B3A3F22E84CAB6C55D622BA05CF25263E4EC6CEC51A6447825A1F2C4201F',3,2,1900000021000,0,0,NULL,NULL,NULL,'','{"x":1}','{}','{}','{}',NULL,1,3,5,1,'a',NULL,0,NULL);
INSERT INTO "workflows" VALUES(29,'gates 1',2181256263,'gates',1,X'DAA842BC43C88B2BAC0ACD926C505F541598A94C4D7601D83243B40DF360E494',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{}','{}','{}','{}',NULL,1,2,0,1,'gate',NULL,0,'{"rate_limit_key":"workflow:gates"}');
INSERT INTO "workflows" VALUES(30,'slot 2',995722336,'slot',1,X'9A43B3A3F22E84CAB6C55D622BA05CF25263E4EC6CEC51A6447825A1F2C4201F',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{"x":2}','{}','{}','{}',NULL,1,2,1,1,'a',NULL,0,NULL);
INSERT INTO "workflows" VALUES(31,'gates 2',3556291191,'gates',1,X'DAA842BC43C88B2BAC0ACD926C505F541598A94C4D7601D83243B40DF360E494',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{}','{}','{}','{}',NULL,1,2,0,1,'gate',NULL,0,'{"rate_limit_key":"workflow:gates","rate_limited":true}');
INSERT INTO "workflows" VALUES(32,'slot 3',620380000,'slot',1,X'9A43B3A3F22E84CAB6C55D622BA05CF25263E4EC6CEC51A6447825A1F2C4201F',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{"x":3}','{}','{}','{}',NULL,1,2,1,1,'a',NULL,0,NULL);
INSERT INTO "workflows" VALUES(33,'gates 3',3973822127,'gates',1,X'DAA842BC43C88B2BAC0ACD926C505F541598A94C4D7601D83243B40DF360E494',3,1,1900000021000,0,0,NULL,NULL,NULL,'','{}','{}','{}','{}',NULL,1,2,0,1,'gate',NULL,0,'{"rate_limit_key":"workflow:gates","rate_limited":true}');
CREATE INDEX idempotency_keys_workflow ON idempotency_keys (workflow_id);
CREATE INDEX messages_offered ON messages (queue, priority, due_at, workflow_id, ref);
CREATE INDEX task_logs_task ON task_logs (task_id, n);
CREATE INDEX task_logs_workflow ON task_logs (workflow_id);
CREATE INDEX limit_members_line ON limit_members (key, priority DESC, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX limit_members_workflow ON limit_members (workflow_id);
CREATE INDEX event_handlers_event ON event_handlers (event, name);
CREATE INDEX event_executions_created ON event_executions (created, name, event, message_id, number);
CREATE INDEX event_executions_name ON event_executions (name, created, event, message_id, number);
CREATE INDEX event_executions_message ON event_executions (message_id, created, name, event, number);
CREATE INDEX external_payloads_key ON external_payloads (key);
CREATE INDEX limits_unpolled ON limits (key) WHERE unpolled IS NOT NULL;
CREATE INDEX limit_members_lane ON limit_members (key, lane, priority DESC, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX indexed_live ON indexed (feed, place, fence) WHERE live = 1;
CREATE INDEX pending_feed ON pending (feed, workflow_id);
CREATE INDEX workflows_head ON workflows (head);
CREATE INDEX workflows_status_created ON workflows (status, created_at, workflow_id);
CREATE INDEX workflows_name ON workflows (name, status, created_at, workflow_id);
CREATE INDEX workflows_correlation ON workflows (correlation_id, created_at, workflow_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX workflows_parent ON workflows (parent_workflow_id, created_at, workflow_id) WHERE parent_workflow_id IS NOT NULL;
CREATE INDEX workflows_owner ON workflows (owner, workflow_id) WHERE owner <> '';
CREATE INDEX tasks_live ON tasks (holder, task_id) WHERE live = 1 OR holder <> '';
CREATE INDEX tasks_failed ON tasks (execution, seq) WHERE retried = 0 AND status IN (5, 6, 7);
CREATE INDEX tasks_loop ON tasks (execution, base_ref, seq, attempt, ref) WHERE iterations <> '';
CREATE INDEX inbox_due ON inbox (owner, due_at, workflow_id, posted_at, coalesce(sender, workflow_id), sender_seq, event_id)
    WHERE held = 0;
DELETE FROM "sqlite_sequence";
COMMIT;
