@echo off
rem For a double click: sets up what is missing and opens Coppice, or does what bootstrap.ps1 is asked for.
if "%~1"=="" (
    powershell -NoProfile -ExecutionPolicy Bypass -File "%~dp0bootstrap.ps1" run
) else (
    powershell -NoProfile -ExecutionPolicy Bypass -File "%~dp0bootstrap.ps1" %*
)
if errorlevel 1 pause
