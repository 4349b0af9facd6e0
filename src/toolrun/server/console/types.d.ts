// What the HTTP API answers, for tsc. docs/reference/http.md describes it.
export interface Tool {
  name: string;
  description: string;
  source: { kind: "function" | "script" | "mcp" | "catalog" | "builtin" | string; name: string };
  effects: string | null;
  approval: string | null;
  state: "ready" | "held" | "unavailable" | string;
  calls: number;
  errors: number;
  p50_ms: number | null;
}

export type Schema = { [key: string]: any };

export interface ToolDetail extends Tool {
  schema: Schema;
  output_schema?: Schema | null;
  annotations?: { [key: string]: any } | null;
  timeout: number | null;
  views: { [provider: string]: { definition: any; notes: any[] } };
  stats: any;
  problem?: string | null;
}

export interface Server {
  name: string;
  state: string;
  error?: string | null;
  tools: number;
  restarts: number;
  [more: string]: any;
}

export interface Worker {
  pid: number;
  state: string;
  calls: number;
  restarts: number;
  [more: string]: any;
}

export interface Health {
  servers: Server[];
  workers: Worker[];
  queues: any;
  threads: { running: number; abandoned: number; [more: string]: any };
  journal: { path?: string; gap?: any; problem?: string | null; [more: string]: any } | null;
  problems: any[];
  uptime: number;
  version: string;
  [more: string]: any;
}
